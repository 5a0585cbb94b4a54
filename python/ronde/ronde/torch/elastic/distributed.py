"""The state of a training with torch.distributed: DDP, FSDP2 and what else is built over a process group.

In every ring the process group is formed and the model built anew, in the same processes; then everybody has the newest
commit. No checkpoint is read or written, and nothing is restarted.
"""

import contextlib

import torch
import torch.distributed as dist

from ronde import _settings
from ronde._basics import basics
from ronde._objects import allgather_object, broadcast_object
from ronde.elastic import State
from ronde.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from ronde.torch.distributed import _ring
from ronde.torch.distributed._group import Group
from ronde.torch.elastic import _commit


class DistributedState(State):
    """What `build()` returns, a dictionary of models, optimizers, samplers and whatever else has a `state_dict`, as
    attributes; and as attributes too plain values, which are given as keywords.

    `build` is called in every ring, when its process group is there.
    """

    def __init__(self, build, *, backend="ronde", timeout=None, **values):
        basics.init()
        super().__init__(broadcast_object, basics.rank)
        self._build = build
        self._options = {"backend": backend, **({"timeout": timeout} if timeout is not None else {})}
        self._plain = list(values)
        for name, value in values.items():
            setattr(self, name, value)
        self._built = {}
        # The last two: one that ended in the middle is whole on some ranks only.
        self._commits = []
        self._places = []
        self._ring = 0
        self._is_ready = self._is_reset = False

    # --- commits ------------------------------------------------------------------------------------------------

    def save(self):
        self._save(_commit.partners)

    def check_host_updates(self):
        try:
            super().check_host_updates()
        except HostsUpdatedInterrupt:
            # Some may leave, and nobody knows yet who.
            self._save(_commit.partners_before_leaving)
            raise

    def restore(self):
        """What was built is built anew in the next ring, and loaded there."""

    def _save(self, partners, key=None):
        if key is None:
            key = self._commits[-1].key[0] + 1, self._ring
        kept = self._commits[-1:] if self._commits and self._commits[-1].is_sharded else []
        given_up = next((each for each in self._commits if each not in kept), None)
        self._commits = [*kept, _commit.take(self._state(), key, partners(self._places), given_up)]

    def _state(self):
        return {
            "built": {name: value.state_dict() for name, value in self._built.items()},
            "plain": {name: getattr(self, name) for name in self._plain},
        }

    # --- rings --------------------------------------------------------------------------------------------------

    def sync(self):
        with self._in_ring():
            self._form_group()
            self._assemble()
            self._take_newest()
            self._is_ready = True
            for callback in self._reset_callbacks if self._is_reset else []:
                callback()

    def on_reset(self):
        # There is nothing yet that a callback could adjust: they are called when it has been built.
        callbacks, self._reset_callbacks = self._reset_callbacks, []
        super().on_reset()
        self._reset_callbacks = callbacks
        self._is_ready, self._is_reset = False, True

    def call_in_ring(self, func, *args, **kwargs):
        """Trains, until the end or until the ring changes."""
        # The launcher knows whether all have the same commit, but what is built must be there all the same.
        if not self._is_ready:
            self.sync()
        with self._in_ring():
            return func(self, *args, **kwargs)

    @contextlib.contextmanager
    def _in_ring(self):
        """What ends a ring leaves nothing of it here, so that nobody waits for this rank there."""
        try:
            yield
        except (HorovodInternalError, HostsUpdatedInterrupt):
            self._leave()
            raise
        except (RuntimeError, ValueError) as error:
            failure = _ring.failure()
            if failure is None:
                raise
            self._leave()
            raise HorovodInternalError(str(failure)) from error

    def _leave(self):
        self._is_ready = False
        for name in self._built:
            delattr(self, name)
        self._built = {}
        if dist.is_initialized():
            dist.destroy_process_group()

    def _form_group(self):
        _ring.forget()
        _commit.forget_meshes()
        if not dist.is_initialized():
            is_alone = basics.size() == 1 and not _settings.has_launcher()
            alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1} if is_alone else {}
            dist.init_process_group(**self._options, **alone)
        if not isinstance(dist.group.WORLD, Group):
            raise ValueError(f"a DistributedState needs the backend ronde for CPU tensors, not {dist.get_backend()}")
        channel = _settings.control_channel()
        own = _commit.Place(_settings.host_name(), basics.local_rank(), channel[1] if channel else basics.rank())
        told = allgather_object((dist.get_rank(), own), name="state.places")
        if [rank for rank, _ in told] != list(range(dist.get_world_size())):
            raise ValueError("the process group has other ranks than the job")
        self._places = [place for _, place in told]

    def _assemble(self):
        for name, value in self._build().items():
            is_taken = name in self._plain
            if is_taken or not hasattr(value, "load_state_dict"):
                why = "is a value of the state too" if is_taken else "has no load_state_dict()"
                raise ValueError(f"build() must return objects that can be saved by name, and `{name}` {why}")
            setattr(self, name, value)
            self._built[name] = value

    def _take_newest(self):
        told, key = self._heard()
        is_first = key is None
        if is_first:
            self._save(_commit.partners, (0, 0))
            told, key = self._heard()
        self._ring = max(each.key[1] for of_rank in told for each in of_rank) + 1
        own = next((each for each in self._commits if each.key == key), None)
        self._load(_commit.give(own, told, key, is_first))
        self._save(_commit.partners, (key[0], self._ring))

    def _heard(self):
        told = allgather_object([each.summary() for each in self._commits], name="state.commits")
        return told, _commit.newest(told)

    def _load(self, given):
        state = given.state("built", self._tensor_of_today)
        for name, value in self._built.items():
            value.load_state_dict(state[name])
        for name, value in given.state("plain").items():
            setattr(self, name, value)

    def _tensor_of_today(self, path):
        """The tensor that is sharded now as the one at a path of the saved state is to be."""
        name, *rest = path
        value = self._built[name]
        if isinstance(value, torch.optim.Optimizer):
            # What an optimizer remembers of a parameter is sharded as the parameter.
            parameters = [parameter for group in value.param_groups for parameter in group["params"]]
            return parameters[rest[1]] if rest[0] == "state" else None
        found = value.state_dict()
        for key in rest:
            found = found[key]
        return found
