"""Training that goes on when ranks come and go.

A state is saved at every commit. When the ring breaks, it is restored; when hosts change, it is kept; either way a
new ring is formed, and everybody takes the first rank's state.
"""

import functools
import queue

from ronde._basics import basics
from ronde._objects import broadcast_object
from ronde.exceptions import HorovodInternalError, HostsUpdatedInterrupt, MismatchError


class HostUpdateResult:
    """What happened to the hosts; a removal alone loses no state."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class State:
    """What a training has to remember."""

    def __init__(self, bcast_object, get_rank):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages = queue.Queue()
        self._last_updated_timestamp = 0
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Called after every new ring, for instance to adjust the learning rate."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp, update_res):
        self._host_messages.put((timestamp, update_res))

    def commit(self):
        """Saves, and looks whether the hosts have changed."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """Raises HostsUpdatedInterrupt, on all ranks at the same commit, if the hosts have changed."""
        before = latest = self._last_updated_timestamp
        update = HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, change = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                update |= change
        before, self._last_updated_timestamp, update = self._bcast_object((before, latest, update))
        if self._last_updated_timestamp > before:
            raise HostsUpdatedInterrupt(update == HostUpdateResult.removed)

    def save(self):
        raise NotImplementedError

    def restore(self):
        raise NotImplementedError

    def sync(self):
        raise NotImplementedError

    def reset(self):
        """What has to be done anew in every ring."""


class ObjectState(State):
    """Plain attributes, given as keywords."""

    def __init__(self, bcast_object=broadcast_object, get_rank=basics.rank, **kwargs):
        self._saved_state = kwargs
        super().__init__(bcast_object, get_rank)
        self._set_attrs()

    def save(self):
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self):
        self._set_attrs()

    def sync(self):
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs()

    def _set_attrs(self):
        for name, value in self._saved_state.items():
            setattr(self, name, value)


def reset():
    """A new ring, of those who are there now."""
    basics.shutdown()
    basics.init()


def run_fn(func, reset):
    """Runs a training function until it ends, through all changes of the ring."""

    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        skip_sync = False
        while True:
            try:
                if not skip_sync:
                    state.sync()
                return func(state, *args, **kwargs)
            except MismatchError:
                # The program's own mistake: it would come again.
                raise
            except HorovodInternalError:
                state.restore()
                skip_sync = False
            except HostsUpdatedInterrupt as update:
                skip_sync = update.skip_sync
            reset()
            state.on_reset()

    return wrapper


def run(func):
    """Decorates a function of a state."""
    return run_fn(func, reset)
