"""Gradients travel smaller than they are."""

import tensorflow as tf


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

    dtype = tf.float16

    @classmethod
    def compress(cls, tensor):
        dtype = tf.as_dtype(tensor.dtype)
        return (tf.cast(tensor, cls.dtype) if dtype.is_floating else tensor), dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tf.cast(tensor, ctx) if ctx.is_floating else tensor


class FP16Compressor(_CastCompressor):
    dtype = tf.float16


class BF16Compressor(_CastCompressor):
    dtype = tf.bfloat16


class Compression:
    """Optional ways to compress gradients."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
