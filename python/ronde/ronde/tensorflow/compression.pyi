from typing import Any

import tensorflow as tf

class Compressor:
    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]: ...
    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor: ...

class NoneCompressor(Compressor): ...

class _CastCompressor(Compressor):
    dtype: Any
    @classmethod
    def compress(cls, tensor: tf.Tensor) -> tuple[tf.Tensor, Any]: ...

class FP16Compressor(_CastCompressor): ...
class BF16Compressor(_CastCompressor): ...

class Compression:
    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
