"""Models, optimizers and objects from one rank to all."""

import collections.abc

import torch

from ronde._objects import allgather_object, broadcast_object
from ronde._operations import synchronize
from ronde.process_sets import global_process_set
from ronde.torch import _async


def broadcast_parameters(params, root_rank, process_set=global_process_set):
    """Gives everybody the root's tensors, in place: a state_dict, tensors, or names with tensors."""
    if isinstance(params, dict):
        params = sorted(params.items())
    elif isinstance(params, collections.abc.Iterable):
        params = [each if isinstance(each, tuple) else (None, each) for each in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    handles = []
    for name, tensor in params:
        if torch.is_tensor(tensor):
            handles.append(_async.broadcast_async_(tensor, root_rank, name, process_set))
    for handle in handles:
        synchronize(handle)


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    """Gives everybody the root's optimizer state: tensors in place, everything else as one object."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    if not optimizer.state_dict()["state"]:
        _make_state(optimizer)
    take_optimizer_state(optimizer, root_rank)


def take_optimizer_state(optimizer, root_rank):
    """The same without making a state where there is none: the root may have one while others have none."""
    tensors, rest = _split(optimizer.state_dict())
    told = broadcast_object((rest, {key: _form(tensor) for key, tensor in tensors.items()}), root_rank, "optimizer")
    rest, forms = told
    for key, (shape, dtype) in forms.items():
        own = tensors.get(key)
        if own is None or own.shape != shape or own.dtype != dtype:
            tensors[key] = torch.zeros(shape, dtype=dtype)
    tensors = {key: tensors[key].contiguous() for key in forms}
    named = {f"{parameter}.{what}": tensor for (parameter, what), tensor in tensors.items()}
    broadcast_parameters(named, root_rank)
    for (parameter, what), tensor in tensors.items():
        rest["state"].setdefault(parameter, {})[what] = tensor
    optimizer.load_state_dict(rest)


def _form(tensor):
    return tensor.shape, tensor.dtype


def _split(state):
    """The tensors of a state, and the state without them."""
    tensors, rest = {}, {"param_groups": state["param_groups"], "state": {}}
    for parameter, values in state["state"].items():
        rest["state"][parameter] = {}
        for what, value in values.items():
            if torch.is_tensor(value):
                tensors[parameter, what] = value
            else:
                rest["state"][parameter][what] = value
    return tensors, rest


def _make_state(optimizer):
    """Lets an optimizer that has not stepped make its state, by a step that changes nothing."""
    before = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            before.append((parameter, parameter.detach().clone(), parameter.grad))
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
    plain_step = getattr(super(type(optimizer), optimizer), "step") if hasattr(optimizer, "_plain_step") else None
    (plain_step or optimizer.step)()
    with torch.no_grad():
        for parameter, value, grad in before:
            parameter.copy_(value)
            # Scripts written for Horovod rely on finding a gradient, if only of zeros.
            if grad is not None:
                parameter.grad = grad


__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]
