"""Loaders of batches: what each has to say, and a thread that loads ahead of the training. Knows no framework."""

import threading
from queue import Empty, Queue

# Seconds between two looks at a thread that may wait for room in the queue.
CLOSE_INTERVAL = 0.02
_END = object()


class _Failure:
    def __init__(self, error):
        self.error = error


class BaseDataLoader:
    """Batches, one epoch for each iteration; subclasses say how they are loaded."""

    def __len__(self):
        """The number of batches."""
        raise NotImplementedError

    def _iterate(self):
        """Loads the batches of an epoch."""
        raise NotImplementedError

    def __iter__(self):
        for batch in self._iterate():
            yield self._process_batch(batch)

    def _process_batch(self, batch):
        """Changes a batch where it is used, not where it is loaded."""
        return batch


class AsyncDataLoaderMixin:
    """Loads in a thread, epoch after epoch: `class Loader(AsyncDataLoaderMixin, MyLoader)`.

    The queue holds so many batches; with 0 nothing is loaded ahead. What the thread raises is raised by the iteration,
    and the next one begins anew. `debug_data_loader` is accepted and makes no difference.
    """

    def __init__(self, async_loader_queue_size=64, debug_data_loader=False, *args, **kwargs):
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self.started = False
        self.finished_event = threading.Event()
        self.queue = Queue(max(async_loader_queue_size, 0))
        self.thread = None
        super().__init__(*args, **kwargs)

    def __iter__(self):
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()
            return
        self._start()
        while (batch := self.queue.get()) is not _END:
            if isinstance(batch, _Failure):
                self.started = False
                raise batch.error
            yield self._process_batch(batch)

    def _start(self):
        if self.finished_event.is_set():
            raise RuntimeError("the loader is closed")
        if not self.started:
            self.started = True
            self.thread = threading.Thread(target=self._async_worker, name="loader", daemon=True)
            self.thread.start()

    def _async_worker(self):
        try:
            while not self.finished_event.is_set():
                for batch in self._iterate():
                    if self.finished_event.is_set():
                        return
                    self.queue.put(batch)
                self.queue.put(_END)
        except BaseException as error:
            self.queue.put(_Failure(error))

    def close_async_loader(self):
        """Ends the thread; what it has loaded is lost."""
        self.finished_event.set()
        if self.thread is None:
            return
        while self.thread.is_alive():
            # It may wait for room.
            self._drain()
            self.thread.join(CLOSE_INTERVAL)
        self._drain()
        # An iteration may wait for a batch.
        self.queue.put(_END)

    def _drain(self):
        try:
            while True:
                self.queue.get_nowait()
        except Empty:
            pass


__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
