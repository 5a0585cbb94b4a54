"""Gradients travel smaller than they are."""

import numpy as np


class Compressor:
    """Makes an array smaller, and what came of it large again."""

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


class FP16Compressor(Compressor):
    @staticmethod
    def compress(tensor):
        is_float = np.issubdtype(tensor.dtype, np.floating)
        return (tensor.astype("float16", copy=False) if is_float else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.astype(ctx, copy=False)


class Compression:
    """Optional ways to compress gradients."""

    none = NoneCompressor
    fp16 = FP16Compressor
