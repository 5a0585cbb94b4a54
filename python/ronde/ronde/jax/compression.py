"""Gradients travel smaller than they are."""

import jax.numpy as jnp


class Compressor:
    """Makes a tensor smaller, and what came of it large again."""

    @staticmethod
    def compress(tensor):
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        raise NotImplementedError


class NoneCompressor(Compressor):
    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


class _CastCompressor(Compressor):
    """Floating point numbers travel as a smaller type."""

    dtype = jnp.float16

    @classmethod
    def compress(cls, tensor):
        tensor = jnp.asarray(tensor)
        is_floating = jnp.issubdtype(tensor.dtype, jnp.floating)
        return (tensor.astype(cls.dtype) if is_floating else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.astype(ctx)


class FP16Compressor(_CastCompressor):
    dtype = jnp.float16


class BF16Compressor(_CastCompressor):
    dtype = jnp.bfloat16


class Compression:
    """Optional ways to compress gradients."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
