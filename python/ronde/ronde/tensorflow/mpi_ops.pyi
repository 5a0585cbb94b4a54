from collections.abc import Iterable
from typing import Any, Optional, Union, overload

import tensorflow as tf

from ronde._basics import *
from ronde._basics import basics as _basics
from ronde.process_sets import ProcessSet

IS_NATIVE: bool
OPERATIONS: list[str]
Average: int
Sum: int
Adasum: int
Min: int
Max: int
Product: int

def allgather(
    tensor: tf.Tensor, name: Optional[str] = None, ignore_name_scope: bool = False, process_set: ProcessSet = ...
) -> tf.Tensor: ...
def grouped_allgather(
    tensors: Iterable[tf.Tensor],
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = ...,
) -> list[tf.Tensor]: ...
def broadcast(
    tensor: tf.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = ...,
) -> tf.Tensor: ...
def broadcast_(
    variables: Iterable[Any], root_rank: int, name: Optional[str] = None, process_set: ProcessSet = ...
) -> list[tf.Tensor]: ...
@overload
def alltoall(
    tensor: tf.Tensor,
    splits: None = None,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = ...,
) -> tf.Tensor: ...
@overload
def alltoall(
    tensor: tf.Tensor,
    splits: Union[list[int], tf.Tensor],
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = ...,
) -> tuple[tf.Tensor, tf.Tensor]: ...
def join(name: Optional[str] = None) -> tf.Tensor: ...
def size_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor: ...
def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor: ...
def local_size_op(name: Optional[str] = None) -> tf.Tensor: ...
def rank_op(name: Optional[str] = None) -> tf.Tensor: ...
def local_rank_op(name: Optional[str] = None) -> tf.Tensor: ...
def handle_average_backwards_compatibility(op: Optional[int], average: Optional[bool]) -> int: ...
def _check_has_gpu() -> bool: ...
