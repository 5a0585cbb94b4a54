"""Parameters and objects that everybody gets from one rank."""

import mxnet as mx

from ronde._objects import allgather_object, broadcast_object
from ronde._operations import synchronize
from ronde.mxnet.mpi_ops import broadcast_, starting


def broadcast_parameters(params, root_rank=0, prefix=None):
    """Gives everybody the root's parameters; those that have no shape yet follow when they get one."""
    if not hasattr(params, "items"):
        raise ValueError(f"invalid params of type: {type(params)}")
    handles = []
    for key, param in sorted(params.items()):
        name = f"{prefix or ''}{key}"
        try:
            data = param.data() if isinstance(param, mx.gluon.Parameter) else param
        except mx.gluon.parameter.DeferredInitializationError:
            _broadcast_when_ready(param, root_rank, name)
        else:
            handles.append(starting.broadcast_(data, root_rank, name))
    for handle in handles:
        synchronize(handle)


def _broadcast_when_ready(param, root_rank, name):
    initialise = param._init_impl

    def initialise_and_broadcast(*args, **kwargs):
        initialise(*args, **kwargs)
        broadcast_(param.data(), root_rank, name)

    param._init_impl = initialise_and_broadcast


__all__ = ["allgather_object", "broadcast_object", "broadcast_parameters"]
