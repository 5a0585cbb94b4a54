"""Elastic training with PyTorch."""

import functools

from ronde import elastic
from ronde.torch.elastic.sampler import ElasticSampler
from ronde.torch.elastic.state import TorchState


def run_fn(func, reset):
    """Runs a training function until it ends, through all changes of the ring."""

    @functools.wraps(func)
    def called(state, *args, **kwargs):
        in_ring = getattr(type(state), "call_in_ring", None)
        return func(state, *args, **kwargs) if in_ring is None else in_ring(state, func, *args, **kwargs)

    return elastic.run_fn(called, reset)


def run(func):
    """Decorates a function of a state."""
    return run_fn(func, elastic.reset)


def __getattr__(name):
    # It needs a torch.distributed that older versions do not have.
    if name == "DistributedState":
        from ronde.torch.elastic.distributed import DistributedState

        return DistributedState
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["ElasticSampler", "TorchState", "run", "run_fn"]
