"""All operations, in the module where Horovod has them. They wait; `priority` is accepted and makes no difference."""

from mxnet.base import MXNetError

from ronde._basics import *  # noqa: F403
from ronde._basics import __all__ as _names
from ronde._basics import basics as _basics
from ronde._operations import Adasum, Average, Max, Min, Operations, Product, Sum, run, start
from ronde.mxnet import _adapter
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

_waiting = Operations(_adapter, run)
# For who has many and waits for them together.
starting = Operations(_adapter, start)


def allreduce(
    tensor,
    average=None,
    name=None,
    priority=0,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
    op=None,
):
    """Everybody's arrays, reduced to one that everybody gets."""
    return _waiting.allreduce(tensor, average, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_(
    tensor,
    average=None,
    name=None,
    priority=0,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
    op=None,
):
    """The same, into the caller's own array."""
    return _waiting.allreduce_(tensor, average, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce(
    tensors,
    average=None,
    name=None,
    priority=0,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
    op=None,
):
    """The same with many arrays, which are done together."""
    return _waiting.grouped_allreduce(tensors, average, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce_(
    tensors,
    average=None,
    name=None,
    priority=0,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
    op=None,
):
    """The same with many arrays, into the caller's own."""
    return _waiting.grouped_allreduce_(tensors, average, name, op, prescale_factor, postscale_factor, process_set)


def allgather(tensor, name=None, priority=0, process_set=global_process_set):
    """Everybody's rows, in the order of the ranks."""
    return _waiting.allgather(tensor, name, process_set)


def grouped_allgather(tensors, name=None, priority=0, process_set=global_process_set):
    """The same with many arrays, which are done together."""
    return _waiting.grouped_allgather(tensors, name, process_set)


def broadcast(tensor, root_rank, name=None, priority=0, process_set=global_process_set):
    """The root's array."""
    return _waiting.broadcast(tensor, root_rank, name, process_set)


def broadcast_(tensor, root_rank, name=None, priority=0, process_set=global_process_set):
    """The root's array, into the caller's own."""
    return _waiting.broadcast_(tensor, root_rank, name, process_set)


def alltoall(tensor, splits=None, name=None, priority=0, process_set=global_process_set):
    """Rows to each member; with splits also how many rows came from each."""
    try:
        result = _waiting.alltoall(tensor, splits, name, process_set)
    except ValueError as error:
        # Splits that do not fit are an error of MXNet in Horovod.
        raise MXNetError(str(error)) from error
    return result[0] if splits is None else result


def reducescatter(
    tensor,
    op=Average,
    name=None,
    priority=0,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """Everybody's arrays, reduced, and of that this rank's share of the rows."""
    _check_has_rows([tensor])
    return _waiting.reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor)


def grouped_reducescatter(
    tensors,
    op=Average,
    name=None,
    priority=0,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """The same with many arrays, which are done together."""
    _check_has_rows(tensors)
    return _waiting.grouped_reducescatter(tensors, name, op, process_set, prescale_factor, postscale_factor)


def _check_has_rows(tensors):
    if any(not tensor.shape for tensor in tensors):
        raise ValueError("reducescatter needs arrays with at least one dimension")


OPERATIONS = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allreduce",
    "allreduce_",
    "alltoall",
    "broadcast",
    "broadcast_",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_reducescatter",
    "reducescatter",
]
__all__ = [
    *_names,
    *OPERATIONS,
    "ProcessSet",
    "_basics",
    "add_process_set",
    "global_process_set",
    "remove_process_set",
]
