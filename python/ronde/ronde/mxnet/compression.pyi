from typing import Any

from mxnet.nd import NDArray

class Compressor:
    @staticmethod
    def compress(tensor: NDArray) -> tuple[NDArray, Any]: ...
    @staticmethod
    def decompress(tensor: NDArray, ctx: Any) -> NDArray: ...

class NoneCompressor(Compressor): ...
class FP16Compressor(Compressor): ...

class Compression:
    none = NoneCompressor
    fp16 = FP16Compressor
