from typing import Any

from jax import Array
from jax.typing import ArrayLike

class Compressor:
    @staticmethod
    def compress(tensor: ArrayLike) -> tuple[Array, Any]: ...
    @staticmethod
    def decompress(tensor: Array, ctx: Any) -> Array: ...

class NoneCompressor(Compressor): ...
class FP16Compressor(Compressor):
    dtype: Any

class BF16Compressor(Compressor):
    dtype: Any

class Compression:
    none: type[NoneCompressor]
    fp16: type[FP16Compressor]
    bf16: type[BF16Compressor]
