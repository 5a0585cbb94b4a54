"""Gradients travel smaller than they are."""

import jax.numpy as jnp

from ronde._compression import Compressor, NoneCompressor


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
