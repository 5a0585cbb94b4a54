"""Operations that return at once, with a handle; and those that wait, without gradients."""

import torch

from ronde._operations import Average, Sum, run, start, synchronize
from ronde._operations import join as _join
from ronde.process_sets import global_process_set
from ronde.torch import _devices
from ronde.torch._on_device import Operations

# Those in place are the users' too; the others get their gradients in `_sync.py`.
waiting = Operations(run)
_starting = Operations(start)

allgather_async = _starting.allgather
allreduce_, allreduce_async, allreduce_async_ = waiting.allreduce_, _starting.allreduce, _starting.allreduce_
alltoall_async = _starting.alltoall
broadcast_, broadcast_async, broadcast_async_ = waiting.broadcast_, _starting.broadcast, _starting.broadcast_
grouped_allgather_async = _starting.grouped_allgather
grouped_allreduce_ = waiting.grouped_allreduce_
grouped_allreduce_async, grouped_allreduce_async_ = _starting.grouped_allreduce, _starting.grouped_allreduce_
grouped_reducescatter_async = _starting.grouped_reducescatter
reducescatter_async = _starting.reducescatter


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Indices and values of all members; returns a function that waits and makes a tensor of them."""
    if op not in (Average, Sum):
        raise ValueError("sparse tensors can only be averaged or summed")
    tensor = tensor.coalesce() if not tensor.is_coalesced() else tensor
    indices = allgather_async(tensor._indices().transpose(0, 1).contiguous(), f"{name}.indices", process_set)
    values = allgather_async(tensor._values(), f"{name}.values", process_set)

    def finish():
        all_values = synchronize(values)
        all_indices = synchronize(indices).transpose(0, 1)
        if op == Average:
            all_values = all_values / process_set.size()
        return torch.sparse_coo_tensor(all_indices, all_values, tensor.size())

    return finish


def join(device=-1):
    """Says that this rank has no more data; waits until nobody has, and returns the rank that was last."""
    _devices.expect()
    return _join()
