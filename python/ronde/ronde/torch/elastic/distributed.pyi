from collections.abc import Callable
from datetime import timedelta
from typing import Any, Optional, TypeVar

from ronde.elastic import State

_T = TypeVar("_T")

class DistributedState(State):
    def __init__(
        self,
        build: Callable[[], dict[str, Any]],
        *,
        backend: str = "ronde",
        timeout: Optional[timedelta] = None,
        **values: Any,
    ) -> None: ...
    def call_in_ring(self, func: Callable[..., _T], *args: Any, **kwargs: Any) -> _T: ...
