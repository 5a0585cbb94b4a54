from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union, overload

from mxnet.nd import NDArray

from ronde._basics import *
from ronde._basics import basics as _basics
from ronde.process_sets import ProcessSet as ProcessSet
from ronde.process_sets import add_process_set as add_process_set
from ronde.process_sets import global_process_set as global_process_set
from ronde.process_sets import remove_process_set as remove_process_set

OPERATIONS: list[str]
starting: Any
Average: int
Sum: int
Adasum: int
Min: int
Max: int
Product: int

def allreduce(
    tensor: NDArray,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
    op: Optional[int] = None,
) -> NDArray: ...
def allreduce_(
    tensor: NDArray,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
    op: Optional[int] = None,
) -> NDArray: ...
def grouped_allreduce(
    tensors: Iterable[NDArray],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
    op: Optional[int] = None,
) -> list[NDArray]: ...
def grouped_allreduce_(
    tensors: Iterable[NDArray],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
    op: Optional[int] = None,
) -> list[NDArray]: ...
def allgather(
    tensor: NDArray, name: Optional[str] = None, priority: int = 0, process_set: ProcessSet = ...
) -> NDArray: ...
def grouped_allgather(
    tensors: Iterable[NDArray], name: Optional[str] = None, priority: int = 0, process_set: ProcessSet = ...
) -> list[NDArray]: ...
def broadcast(
    tensor: NDArray, root_rank: int, name: Optional[str] = None, priority: int = 0, process_set: ProcessSet = ...
) -> NDArray: ...
def broadcast_(
    tensor: NDArray, root_rank: int, name: Optional[str] = None, priority: int = 0, process_set: ProcessSet = ...
) -> NDArray: ...
@overload
def alltoall(
    tensor: NDArray,
    splits: None = None,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = ...,
) -> NDArray: ...
@overload
def alltoall(
    tensor: NDArray,
    splits: Union[Sequence[int], NDArray],
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = ...,
) -> tuple[NDArray, NDArray]: ...
def reducescatter(
    tensor: NDArray,
    op: int = ...,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> NDArray: ...
def grouped_reducescatter(
    tensors: Sequence[NDArray],
    op: int = ...,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[NDArray]: ...
