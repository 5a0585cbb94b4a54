"""Operations as PyTorch's users ask for them: by the engine, or on tensors of a device by the device's own backend."""

import torch

from ronde import _operations
from ronde.torch import _adapter, _devices

# What all backends compute with. Others go through the machine's memory, where the engine knows them.
_TYPES = {"int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"}
_KNOWN = {getattr(torch, name) for name in _TYPES}
# Versions of Gloo differ in it.
_KNOWN_TO_GLOO = _KNOWN - {torch.bfloat16}


class OnDevice(_operations.Operation):
    """An operation whose tensors stay where they are."""

    __slots__ = ("__weakref__", "device", "done", "is_in_place", "order", "ready")

    def __init__(self, device, kind, details, tensors, name, process_set, is_in_place, is_group):
        self.adapter, self.device, self.kind, self.details, self.tensors = _adapter, device, kind, details, tensors
        self.name, self.is_group, self.process_set_id = name, is_group, process_set.process_set_id
        self.is_in_place = is_in_place
        self.staged = [_adapter.plain(tensor, is_in_place) for tensor in tensors]
        self.memory = [(*_adapter.memory(tensor)[:2], 0, None) for tensor in self.staged]
        self.results = self.done = self.ready = self.order = None

    def submit(self, engine, number):
        lane = _devices.lane(self.process_set_id)
        # The engine says why this rank cannot ask for it.
        if lane is not None:
            self.order = lane.order(self.device.type)
            self.ready = self.order.ready()
            lane.operations[number] = self
        return engine.submit_at(self, number, self.device.type)

    def room(self):
        """Where results go that are like the tensors; others are made with the operation."""
        if self.is_in_place:
            self.results = self.staged
        elif self.kind in ("allreduce", "broadcast"):
            self.results = [torch.empty_like(tensor) for tensor in self.staged]
        return self.results or self.staged

    def result(self, outcome):
        self.order.follow(self, self.results)
        results = self.tensors if self.is_in_place else self.results
        if self.kind == "alltoall":
            return results[0], _adapter.splits(outcome.received_splits)
        return list(results) if self.is_group else results[0]


def _device(tensors):
    """The device whose backend does it; none if the engine does."""
    if not _devices.backends or not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        return None
    devices = {tensor.device for tensor in tensors}
    if len(devices) != 1:
        return None
    (device,) = devices
    backend = _devices.backends.get(device.type)
    known = _KNOWN_TO_GLOO if backend == "gloo" else _KNOWN
    is_possible = backend is not None and all(t.dtype in known and t.layout == torch.strided for t in tensors)
    # What is on another one is staged, if all ranks have it there.
    return device if is_possible and _devices.is_home(device) else None


class Operations(_operations.Operations):
    """Chooses who does it: the same on all ranks, since all have tensors of the same kind."""

    def __init__(self, act):
        super().__init__(_adapter, act)
        self._is_waiting = act is _operations.run

    def _same_shape(self, kind, details, tensors, name, process_set, is_in_place, is_group):
        device = _device(tensors)
        if device is None:
            return super()._same_shape(kind, details, tensors, name, process_set, is_in_place, is_group)
        return self._begin(OnDevice(device, kind, details, tensors, name, process_set, is_in_place, is_group))

    def _new_shape(self, kind, details, tensors, name, process_set, is_group):
        device = _device(tensors)
        if device is None:
            return super()._new_shape(kind, details, tensors, name, process_set, is_group)
        return self._begin(OnDevice(device, kind, details, tensors, name, process_set, False, is_group))

    def _begin(self, operation):
        handle = _operations.start(operation)
        return _operations.synchronize(handle) if self._is_waiting else handle
