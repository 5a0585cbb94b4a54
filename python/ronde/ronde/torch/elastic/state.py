"""The state of a training with PyTorch: models, optimizers and samplers know how they are saved and sent."""

import copy

import torch

from ronde._basics import basics
from ronde._objects import broadcast_object
from ronde._sampler import sync_sampler
from ronde.elastic import ObjectState
from ronde.torch.elastic.sampler import ElasticSampler
from ronde.torch.functions import broadcast_parameters, take_optimizer_state


class StateHandler:
    """How a value is saved, restored and sent."""

    def __init__(self, value):
        self.value = value
        self._saved = None
        self.save()

    def save(self):
        self._saved = _copied(self.value.state_dict(), self._saved)

    def restore(self):
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self):
        """Takes the first rank's value; saving it is the state's business."""
        raise NotImplementedError

    def set_value(self, value):
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    def sync(self):
        broadcast_parameters(self.value.state_dict(), root_rank=0)


class OptimizerStateHandler(StateHandler):
    def sync(self):
        take_optimizer_state(self.value, root_rank=0)


class SamplerStateHandler(StateHandler):
    def sync(self):
        sync_sampler(self.value, "sampler")


def _copied(value, before):
    """A deep copy; tensors go into the memory of the copy before, which is five times as fast as new memory."""
    if torch.is_tensor(value):
        if torch.is_tensor(before) and before.shape == value.shape and before.dtype == value.dtype:
            with torch.no_grad():
                return before.copy_(value)
        return value.detach().clone()
    if isinstance(value, dict):
        # A shallow copy first: it keeps the type and what models note beside their tensors.
        result = copy.copy(value)
        before = before if isinstance(before, dict) else {}
        for key in value:
            result[key] = _copied(value[key], before.get(key))
        return result
    return copy.deepcopy(value)


_registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry():
    return _registry


def set_handler_registry(registry):
    global _registry
    _registry = registry


def _handler(value):
    return next((handler(value) for kind, handler in _registry if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """Models, optimizers, samplers, and plain objects."""

    def __init__(self, model=None, optimizer=None, **kwargs):
        kwargs.update({name: value for name, value in (("model", model), ("optimizer", optimizer)) if value})
        handlers = {name: _handler(value) for name, value in kwargs.items()}
        self._handlers = {name: handler for name, handler in handlers.items() if handler is not None}
        for name, handler in self._handlers.items():
            object.__setattr__(self, name, handler.value)
        plain = {name: value for name, value in kwargs.items() if name not in self._handlers}
        super().__init__(broadcast_object, basics.rank, **plain)

    def save(self):
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self):
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self):
        for handler in self._handlers.values():
            handler.sync()
        super().sync()
        # Only now, so that a sync that breaks off leaves the last commit whole.
        for handler in self._handlers.values():
            handler.save()

    def reset(self):
        for handler in self._handlers.values():
            if isinstance(handler, SamplerStateHandler):
                handler.value.reset()

    def __setattr__(self, name, value):
        if name in self.__dict__.get("_handlers", {}):
            self._handlers[name].set_value(value)
        object.__setattr__(self, name, value)
