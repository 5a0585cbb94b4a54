from collections.abc import Iterable
from typing import Optional, Sequence, TypeVar, Union, overload

from jax import Array
from jax.typing import ArrayLike

from ronde.jax.compression import Compressor
from ronde.process_sets import ProcessSet

_Tree = TypeVar("_Tree")

def allreduce(
    tensor: ArrayLike,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: type[Compressor] = ...,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> Array: ...
def grouped_allreduce(
    tensors: Iterable[ArrayLike],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: type[Compressor] = ...,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = ...,
) -> list[Array]: ...
def allgather(tensor: ArrayLike, name: Optional[str] = None, process_set: ProcessSet = ...) -> Array: ...
def grouped_allgather(
    tensors: Iterable[ArrayLike], name: Optional[str] = None, process_set: ProcessSet = ...
) -> list[Array]: ...
def broadcast(
    tensor: ArrayLike, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = ...
) -> Array: ...
@overload
def alltoall(
    tensor: ArrayLike, splits: None = None, name: Optional[str] = None, process_set: ProcessSet = ...
) -> Array: ...
@overload
def alltoall(
    tensor: ArrayLike,
    splits: Union[Sequence[int], Array],
    name: Optional[str] = None,
    process_set: ProcessSet = ...,
) -> tuple[Array, Array]: ...
def reducescatter(
    tensor: ArrayLike,
    name: Optional[str] = None,
    compression: type[Compressor] = ...,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Array: ...
def grouped_reducescatter(
    tensors: Iterable[ArrayLike],
    name: Optional[str] = None,
    compression: type[Compressor] = ...,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Array]: ...
def psum(
    values: _Tree, name: Optional[str] = None, compression: type[Compressor] = ..., process_set: ProcessSet = ...
) -> _Tree: ...
def pmean(
    values: _Tree, name: Optional[str] = None, compression: type[Compressor] = ..., process_set: ProcessSet = ...
) -> _Tree: ...
