from collections.abc import Iterable
from typing import Any, Callable, Optional, TypeVar

import tensorflow as tf

from ronde.process_sets import ProcessSet

_T = TypeVar("_T")

def broadcast_variables(
    variables: Iterable[Any], root_rank: int, process_set: ProcessSet = ..., inplace: bool = False
) -> Any: ...
def broadcast_object(
    obj: _T = ...,
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = ...,
) -> _T: ...
def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: Optional[str] = None, process_set: ProcessSet = ...
) -> Callable[[_T], _T]: ...
def allgather_object(
    obj: _T, session: Any = None, name: Optional[str] = None, process_set: ProcessSet = ...
) -> list[_T]: ...
def broadcast_global_variables(root_rank: int) -> Any: ...

class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    root_rank: int
    device: str
    bcast_op: Any
    def __init__(self, root_rank: int, device: str = "") -> None: ...
    def begin(self) -> None: ...
    def after_create_session(self, session: Any, coord: Any) -> None: ...
