from collections.abc import Iterable
from typing import Any, Callable, Optional, Sequence, Union, overload

from torch import Tensor
from torch.autograd import Function

from ronde._basics import *
from ronde._basics import basics as _basics
from ronde.process_sets import ProcessSet
from ronde.torch.compression import Compressor

OPERATIONS: list[str]
_handle_map: dict[int, Any]
Average: int
Sum: int
Adasum: int
Min: int
Max: int
Product: int

def allgather(tensor: Tensor, name: Optional[str] = None, process_set: ProcessSet = ...) -> Tensor: ...
def allgather_async(tensor: Tensor, name: Optional[str] = None, process_set: ProcessSet = ...) -> int: ...
def allreduce(
    tensor: Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: type[Compressor] = ...,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> Tensor: ...
def allreduce_(
    tensor: Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> Tensor: ...
def allreduce_async(
    tensor: Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> int: ...
def allreduce_async_(
    tensor: Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> int: ...
@overload
def alltoall(tensor: Tensor, splits: None = None, name: Optional[str] = None, process_set: ProcessSet = ...) -> Tensor: ...
@overload
def alltoall(
    tensor: Tensor, splits: Union[Sequence[int], Tensor], name: Optional[str] = None, process_set: ProcessSet = ...
) -> tuple[Tensor, Tensor]: ...
def alltoall_async(
    tensor: Tensor,
    splits: Union[None, Sequence[int], Tensor] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = ...,
) -> int: ...
def broadcast(tensor: Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = ...) -> Tensor: ...
def broadcast_(tensor: Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = ...) -> Tensor: ...
def broadcast_async(
    tensor: Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = ...
) -> int: ...
def broadcast_async_(
    tensor: Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = ...
) -> int: ...
def grouped_allgather(
    tensors: Iterable[Tensor], name: Optional[str] = None, process_set: ProcessSet = ...
) -> list[Tensor]: ...
def grouped_allgather_async(
    tensors: Iterable[Tensor], name: Optional[str] = None, process_set: ProcessSet = ...
) -> int: ...
def grouped_allreduce(
    tensors: Iterable[Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: type[Compressor] = ...,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> list[Tensor]: ...
def grouped_allreduce_(
    tensors: Iterable[Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> list[Tensor]: ...
def grouped_allreduce_async(
    tensors: Iterable[Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> int: ...
def grouped_allreduce_async_(
    tensors: Iterable[Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> int: ...
def grouped_reducescatter(
    tensors: Iterable[Tensor],
    name: Optional[str] = None,
    compression: type[Compressor] = ...,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]: ...
def grouped_reducescatter_async(
    tensors: Iterable[Tensor],
    name: Optional[str] = None,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int: ...
def reducescatter(
    tensor: Tensor,
    name: Optional[str] = None,
    compression: type[Compressor] = ...,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor: ...
def reducescatter_async(
    tensor: Tensor,
    name: Optional[str] = None,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int: ...
def sparse_allreduce_async(
    tensor: Tensor, name: str, op: int, process_set: ProcessSet = ...
) -> Callable[[], Tensor]: ...
def barrier(process_set: ProcessSet = ...) -> None: ...
def join(device: int = -1) -> int: ...
def poll(handle: int) -> bool: ...
def synchronize(handle: int) -> Any: ...
def handle_average_backwards_compatibility(op: Optional[int], average: Optional[bool]) -> int: ...

HorovodAllgather: type[Function]
HorovodAllreduce: type[Function]
HorovodAlltoall: type[Function]
HorovodBroadcast: type[Function]
HorovodGroupedAllgather: type[Function]
HorovodGroupedAllreduce: type[Function]
HorovodGroupedReducescatter: type[Function]
HorovodReducescatter: type[Function]
