from collections.abc import Iterable
from typing import Any, Optional, Sequence, Union, overload

from numpy.typing import NDArray

from ronde._basics import *
from ronde.exceptions import HorovodInternalError as HorovodInternalError
from ronde.process_sets import ProcessSet as ProcessSet
from ronde.process_sets import add_process_set as add_process_set
from ronde.process_sets import global_process_set as global_process_set
from ronde.process_sets import remove_process_set as remove_process_set

_Array = NDArray[Any]

Average: int
Sum: int
Adasum: int
Min: int
Max: int
Product: int

def allgather(tensor: _Array, name: Optional[str] = None, process_set: ProcessSet = ...) -> _Array: ...
def allgather_async(tensor: _Array, name: Optional[str] = None, process_set: ProcessSet = ...) -> int: ...
def allreduce(
    tensor: _Array,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> _Array: ...
def allreduce_(
    tensor: _Array,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> _Array: ...
def allreduce_async(
    tensor: _Array,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> int: ...
def allreduce_async_(
    tensor: _Array,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> int: ...
@overload
def alltoall(tensor: _Array, splits: None = None, name: Optional[str] = None, process_set: ProcessSet = ...) -> _Array: ...
@overload
def alltoall(
    tensor: _Array, splits: Union[Sequence[int], _Array], name: Optional[str] = None, process_set: ProcessSet = ...
) -> tuple[_Array, _Array]: ...
def alltoall_async(
    tensor: _Array,
    splits: Union[None, Sequence[int], _Array] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = ...,
) -> int: ...
def broadcast(tensor: _Array, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = ...) -> _Array: ...
def broadcast_(tensor: _Array, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = ...) -> _Array: ...
def broadcast_async(
    tensor: _Array, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = ...
) -> int: ...
def broadcast_async_(
    tensor: _Array, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = ...
) -> int: ...
def grouped_allgather(
    tensors: Iterable[_Array], name: Optional[str] = None, process_set: ProcessSet = ...
) -> list[_Array]: ...
def grouped_allgather_async(
    tensors: Iterable[_Array], name: Optional[str] = None, process_set: ProcessSet = ...
) -> int: ...
def grouped_allreduce(
    tensors: Iterable[_Array],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> list[_Array]: ...
def grouped_allreduce_(
    tensors: Iterable[_Array],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> list[_Array]: ...
def grouped_allreduce_async(
    tensors: Iterable[_Array],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> int: ...
def grouped_allreduce_async_(
    tensors: Iterable[_Array],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> int: ...
def grouped_reducescatter(
    tensors: Iterable[_Array],
    name: Optional[str] = None,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[_Array]: ...
def grouped_reducescatter_async(
    tensors: Iterable[_Array],
    name: Optional[str] = None,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int: ...
def reducescatter(
    tensor: _Array,
    name: Optional[str] = None,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> _Array: ...
def reducescatter_async(
    tensor: _Array,
    name: Optional[str] = None,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int: ...
def barrier(process_set: ProcessSet = ...) -> None: ...
def join() -> int: ...
def poll(handle: int) -> bool: ...
def synchronize(handle: int) -> Any: ...
