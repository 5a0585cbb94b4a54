"""Training that goes on when ranks come and go.

A state is saved at every commit. When the ring breaks, it is restored; when hosts change, it is kept; either way a
new ring is formed, and everybody takes the first rank's state. The launcher makes the rank with the newest state the
first; it also knows when all have the same, and nothing has to be sent.
"""

import functools
import queue

import numpy as np

from ronde import _control_channel
from ronde import numpy as arrays
from ronde._basics import basics
from ronde._objects import broadcast_object
from ronde._sampler import ShardedSampler
from ronde.exceptions import HorovodInternalError, HostsUpdatedInterrupt, MismatchError


class HostUpdateResult:
    """What happened to the hosts; a removal alone loses no state."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class _Messages(queue.Queue):
    """What has happened to the hosts; what the launcher has announced counts before it has come to pass."""

    def empty(self):
        channel = _control_channel.connect()
        return super().empty() and not (channel is not None and channel.native.is_noticed())


class State:
    """What a training has to remember."""

    def __init__(self, bcast_object, get_rank):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages = _Messages()
        self._last_updated_timestamp = 0
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Called after every new ring, for instance to adjust the learning rate."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        self._host_messages = _Messages()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp, update_res):
        self._host_messages.put((timestamp, update_res))

    def commit(self):
        """Saves, and looks whether the hosts have changed."""
        self.save()
        channel = _control_channel.connect()
        if channel is not None:
            channel.committed()
        self.check_host_updates()

    def check_host_updates(self):
        """Raises HostsUpdatedInterrupt, on all ranks at the same commit, if the hosts have changed."""
        channel = _control_channel.connect()
        if channel is None:
            self._agree_on_updates()
            return
        # The launcher has agreed with all ranks on the check: nothing has to be sent between them.
        change = channel.native.check()
        if change is not None:
            raise HostsUpdatedInterrupt(change == HostUpdateResult.removed)

    def _agree_on_updates(self):
        before = latest = self._last_updated_timestamp
        update = HostUpdateResult.no_update
        while self._host_messages.qsize():
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
    """Plain attributes, given as keywords. Of samplers, what is done of the epoch is saved and agreed upon."""

    def __init__(self, bcast_object=broadcast_object, get_rank=basics.rank, **kwargs):
        samplers = {name: value for name, value in kwargs.items() if isinstance(value, ShardedSampler)}
        self._saved_state = {name: value for name, value in kwargs.items() if name not in samplers}
        self._saved_samplers = {name: sampler.state_dict() for name, sampler in samplers.items()}
        super().__init__(bcast_object, get_rank)
        for name, sampler in samplers.items():
            setattr(self, name, sampler)
        self._set_attrs()

    def save(self):
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}
        self._saved_samplers = {name: getattr(self, name).state_dict() for name in self._saved_samplers}

    def restore(self):
        for name, saved in self._saved_samplers.items():
            getattr(self, name).load_state_dict(saved)
        self._set_attrs()

    def sync(self):
        for name in self._saved_samplers:
            getattr(self, name).sync()
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs()
        # Only now, so that a sync that breaks off leaves the last commit whole.
        self._saved_samplers = {name: getattr(self, name).state_dict() for name in self._saved_samplers}

    def reset(self):
        for name in self._saved_samplers:
            getattr(self, name).reset()

    def _set_attrs(self):
        for name, value in self._saved_state.items():
            setattr(self, name, value)


class ArrayState(State):
    """NumPy arrays and plain attributes, given as keywords. Arrays are saved by copying and sent as they are."""

    def __init__(self, **kwargs):
        super().__init__(broadcast_object, basics.rank)
        self._names = list(kwargs)
        self._saved = {}
        for name, value in kwargs.items():
            setattr(self, name, value)
        self.save()

    def save(self):
        for name in self._names:
            value, saved = getattr(self, name), self._saved.get(name)
            if _are_alike(value, saved):
                np.copyto(saved, value)
            else:
                self._saved[name] = value.copy() if isinstance(value, np.ndarray) else value

    def restore(self):
        for name, saved in self._saved.items():
            value = getattr(self, name)
            if _are_alike(value, saved):
                np.copyto(value, saved)
            else:
                setattr(self, name, saved.copy() if isinstance(saved, np.ndarray) else saved)

    def sync(self):
        values = {name: getattr(self, name) for name in self._names}
        forms = {name: (value.shape, value.dtype) for name, value in values.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in values.items() if name not in forms}
        forms, plain = broadcast_object((forms, plain), 0, "state")
        for name, (shape, dtype) in sorted(forms.items()):
            value = values.get(name)
            if not isinstance(value, np.ndarray) or (value.shape, value.dtype) != (shape, dtype):
                value = np.empty(shape, dtype)
                setattr(self, name, value)
            if value.flags.c_contiguous and value.flags.writeable:
                arrays.broadcast_(value, 0, f"state.{name}")
            else:
                setattr(self, name, arrays.broadcast(value, 0, f"state.{name}"))
        for name, value in plain.items():
            setattr(self, name, value)
        self.save()


def _are_alike(one, other):
    are_arrays = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
    return are_arrays and one.shape == other.shape and one.dtype == other.dtype


def reset():
    """A new ring, of those who are there now."""
    basics.shutdown()
    basics.init()


def run_fn(func, reset):
    """Runs a training function until it ends, through all changes of the ring."""

    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        channel = _control_channel.connect()
        skip_sync = False
        while True:
            try:
                if not skip_sync:
                    state.sync()
                    if channel is not None:
                        channel.synced()
                return func(state, *args, **kwargs)
            except MismatchError:
                # The program's own mistake: it would come again.
                raise
            except HorovodInternalError as error:
                state.restore()
                skip_sync = False
                if channel is not None:
                    channel.broken(error)
            except HostsUpdatedInterrupt as update:
                skip_sync = update.skip_sync
                if channel is not None:
                    channel.interrupted()
            reset()
            if channel is not None:
                # Only the launcher knows who else is in the new ring.
                skip_sync = channel.is_in_step
            state.on_reset()

    return wrapper


def run(func):
    """Decorates a function of a state."""
    return run_fn(func, reset)
