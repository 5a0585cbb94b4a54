import threading
from collections.abc import Iterator
from queue import Queue
from typing import Any, Optional

CLOSE_INTERVAL: float

class BaseDataLoader:
    def __len__(self) -> int: ...
    def _iterate(self) -> Iterator[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def _process_batch(self, batch: Any) -> Any: ...

class AsyncDataLoaderMixin:
    async_loader_queue_size: int
    debug_data_loader: bool
    started: bool
    finished_event: threading.Event
    queue: Queue[Any]
    thread: Optional[threading.Thread]
    def __init__(
        self, async_loader_queue_size: int = 64, debug_data_loader: bool = False, *args: Any, **kwargs: Any
    ) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def close_async_loader(self) -> None: ...

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
