"""Gradients travel smaller than they are."""

import torch


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


class FP16Compressor(Compressor):
    @staticmethod
    def compress(tensor):
        is_float = tensor.dtype.is_floating_point
        return (tensor.to(torch.float16) if is_float else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx) if ctx.is_floating_point else tensor


class BF16Compressor(FP16Compressor):
    @staticmethod
    def compress(tensor):
        is_float = tensor.dtype.is_floating_point
        return (tensor.to(torch.bfloat16) if is_float else tensor), tensor.dtype


class Compression:
    """Optional ways to compress gradients."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
