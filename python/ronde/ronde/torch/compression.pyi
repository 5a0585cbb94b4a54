from typing import Any

from torch import Tensor

class Compressor:
    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]: ...
    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor: ...

class NoneCompressor(Compressor): ...
class FP16Compressor(Compressor): ...
class BF16Compressor(FP16Compressor): ...

class Compression:
    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
