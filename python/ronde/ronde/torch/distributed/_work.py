"""An operation under way, as torch sees it: waited for, polled, or followed by a future."""

import atexit
import itertools
import threading

import torch
import torch.distributed as dist

from ronde._ronde import Notices
from ronde.torch.distributed import _ring
from ronde.torch.distributed._compiler import untraced

# What the engine's errors begin with for those who know Horovod.
_PREFIXES = ("Horovod has been shut down: ", "Horovod initialization failed: ")


def error_of(what, error):
    """An error of the engine as torch's users catch it."""
    _ring.note(error)
    text = str(error)
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return dist.DistBackendError(f"ronde: {what}: {text}")


def _value(promise):
    """What was promised, or the error. A future's own exception would be a value to DDP, which is not written in Python;
    one that a callback raises is an error to everybody."""
    value = promise.value()
    if isinstance(value, Exception):
        raise value
    return value


class Work(dist.Work):
    """One operation. `finish` brings what the engine made to where the caller wants it; `result` is the future's."""

    def __init__(self, what, result, finish, limit=None):
        super().__init__()
        self._what = what
        self._limit = limit
        self._result = result
        self._finish = finish
        self._handle = None
        self._is_done = False
        self._error = None
        self._future = self._promise = None
        self._is_followed = False
        self._source = -1
        # Whoever holds it brings the operation to its end; until it has begun, that is nobody.
        self._driving = threading.Lock()
        self._driving.acquire()
        self._changing = threading.Lock()

    # --- its life -----------------------------------------------------------------------------------------------

    def begin(self, engine, operation, keep):
        """Puts the operation in; what is made of it appears without anybody waiting."""
        try:
            self._handle = engine.start(operation, (self, keep), False)
        except (RuntimeError, ValueError) as error:
            return self.fail(error)
        self._driving.release()
        # The future may have been asked for before there was anything to follow.
        if self._finish is not None or self._future is not None:
            _follow(self)
        return None

    def fail(self, error):
        """It never began."""
        self._error = error_of(self._what, error)
        self._settle()
        self._driving.release()
        self._tell()

    def _drive(self, seconds=None):
        if not self._driving.acquire(timeout=-1 if seconds is None else seconds):
            raise self._late(seconds)
        try:
            if self._is_done:
                return
            try:
                outcome = self._handle.wait(self._limit if seconds is None else seconds)
                if self._finish is not None:
                    self._finish(self, outcome)
            except TimeoutError:
                raise self._late(seconds or self._limit) from None
            except (RuntimeError, ValueError) as error:
                self._error = error_of(self._what, error)
            self._settle()
        finally:
            self._driving.release()
        self._tell()

    def _late(self, seconds):
        return dist.DistBackendError(f"ronde: {self._what}: timed out after {seconds:g} s")

    def _settle(self):
        with self._changing:
            self._is_done = True
        # The tensors are the caller's again.
        self._handle = self._finish = None

    def _tell(self):
        """Keeps the promise of a future, once. Not under a lock: a callback may do anything."""
        with self._changing:
            promise = self._promise if self._is_done else None
            if promise is not None:
                self._promise = None
        if promise is not None:
            promise.set_result(self._result if self._error is None else self._error)

    # --- what torch asks ----------------------------------------------------------------------------------------

    @untraced
    def wait(self, timeout=None):
        seconds = None if timeout is None or timeout.total_seconds() <= 0 else timeout.total_seconds()
        if not self._is_done:
            self._drive(seconds)
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        handle = self._handle
        if not self._is_done and handle is not None and handle.poll():
            self._drive()
        return self._is_done

    def is_success(self):
        return self._is_done and self._error is None

    def exception(self):
        return self._error

    def result(self):
        return self._result

    def source_rank(self):
        return self._source

    _source_rank = source_rank

    @untraced
    def get_future(self):
        with self._changing:
            is_new = self._future is None
            if is_new:
                self._promise = torch.futures.Future()
                self._future = self._promise.then(_value)
        if is_new:
            if self._is_done:
                self._tell()
            elif self._finish is None:
                _follow(self)
        return self._future


class Finished(Work):
    """An operation that was done before anybody could ask."""

    def __init__(self, what, result):
        dist.Work.__init__(self)
        self._what, self._result = what, result
        self._is_done, self._error, self._future, self._promise = True, None, None, None
        self._handle, self._source = None, -1
        self._changing = threading.Lock()


class Batch(Finished):
    """Operations that are waited for together."""

    def __init__(self, what, works):
        super().__init__(what, [work.result() for work in works])
        self._works = works

    def wait(self, timeout=None):
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self):
        return all([work.is_completed() for work in self._works])

    def get_future(self):
        return torch.futures.collect_all([work.get_future() for work in self._works])


# --- those that end by themselves -----------------------------------------------------------------------------------

_notices = None
_thread = None
_starting = threading.Lock()
_numbers = itertools.count(1)
_followed: dict = {}


def _follow(work):
    """Brings an operation to its end as soon as it can be, in a thread of ours."""
    global _notices, _thread
    with _starting:
        if _thread is None:
            _notices = Notices()
            _thread = threading.Thread(target=_finish_all, name="ronde-works", daemon=True)
            _thread.start()
        handle = work._handle
        if handle is None or work._is_followed:
            return
        work._is_followed = True
    number = next(_numbers)
    _followed[number] = work
    handle.when_done(_notices, number)


def _finish_all():
    while (number := _notices.next()) is not None:
        work = _followed.pop(number)
        try:
            work._drive()
        except Exception as error:
            # A callback of the caller's has failed, and nobody waits for it here.
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, _thread)))


def _end():
    if _thread is not None:
        _notices.close()
        _thread.join()


# Before the engines end (the last registered is the first): what is in flight then is nobody's any more.
atexit.register(_end)
