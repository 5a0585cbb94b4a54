from collections.abc import Sequence
from typing import Any, Optional, TypeVar

import tensorflow as tf

from ronde.process_sets import ProcessSet
from ronde.tensorflow.compression import Compressor

# A tensor, or the slices of one.
_Values = TypeVar("_Values")

def members(process_set: ProcessSet, dtype: Any) -> tf.Tensor: ...
def allreduce(
    tensor: _Values,
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = ...,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: ProcessSet = ...,
    ignore_name_scope: bool = False,
) -> _Values: ...
def grouped_allreduce(
    tensors: Sequence[_Values],
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = ...,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
    ignore_name_scope: bool = False,
    name: Optional[str] = None,
) -> list[_Values]: ...
def reducescatter(
    tensor: tf.Tensor,
    device_dense: str = "",
    compression: type[Compressor] = ...,
    op: int = ...,
    name: Optional[str] = None,
    process_set: ProcessSet = ...,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor: ...
def grouped_reducescatter(
    tensors: Sequence[tf.Tensor],
    device_dense: str = "",
    compression: type[Compressor] = ...,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[tf.Tensor]: ...
