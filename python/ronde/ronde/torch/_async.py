"""Operations that return at once, with a handle; and those in place, which are not differentiable."""

from ronde import _ops
from ronde._ops import Average, Sum
from ronde.process_sets import global_process_set
from ronde.torch import _adapter


def reduced(tensors, op, scales, name, process_set, is_in_place, is_group):
    """An allreduce, ready to be put in."""
    prescale, postscale = scales
    return _ops.allreduce(_adapter, tensors, name, op, prescale, postscale, process_set, is_in_place, is_group)


def scattered(tensors, op, scales, name, process_set, is_group):
    details = (op, float(scales[0]), float(scales[1]))
    return _ops.made(_adapter, "reducescatter", details, tensors, name, process_set, is_group)


def gathered(tensors, name, process_set, is_group):
    return _ops.made(_adapter, "allgather", None, tensors, name, process_set, is_group)


def exchanged(tensor, splits, name, process_set):
    return _ops.made(_adapter, "alltoall", rows(splits), [tensor], name, process_set, False)


def rows(splits):
    """Splits as numbers, if they are any."""
    if splits is None:
        return None
    if hasattr(splits, "dtype"):
        if splits.dim() != 1:
            raise ValueError("alltoall expects a 1D splits tensor")
        if str(splits.dtype) != "torch.int32":
            raise ValueError("alltoall expects splits with 32-bit integer elements")
        splits = splits.tolist()
    if any(split < 0 for split in splits):
        raise ValueError(f"alltoall expects splits that are not negative, not {splits}")
    return [int(split) for split in splits]


def allreduce_async(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    scales = prescale_factor, postscale_factor
    op = _ops.reduce_op(op, average)
    return _ops.start(_adapter, reduced([tensor], op, scales, name, process_set, False, False))


def allreduce_async_(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    scales = prescale_factor, postscale_factor
    op = _ops.reduce_op(op, average)
    return _ops.start(_adapter, reduced([tensor], op, scales, name, process_set, True, False))


def allreduce_(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    scales = prescale_factor, postscale_factor
    op = _ops.reduce_op(op, average)
    return _ops.run(_adapter, reduced([tensor], op, scales, name, process_set, True, False))


def grouped_allreduce_async(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    scales = prescale_factor, postscale_factor
    op = _ops.reduce_op(op, average)
    return _ops.start(_adapter, reduced(list(tensors), op, scales, name, process_set, False, True))


def grouped_allreduce_async_(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    scales = prescale_factor, postscale_factor
    op = _ops.reduce_op(op, average)
    return _ops.start(_adapter, reduced(list(tensors), op, scales, name, process_set, True, True))


def grouped_allreduce_(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    scales = prescale_factor, postscale_factor
    op = _ops.reduce_op(op, average)
    return _ops.run(_adapter, reduced(list(tensors), op, scales, name, process_set, True, True))


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Indices and values of all members; returns a function that waits and makes a tensor of them."""
    import torch

    if op not in (Average, Sum):
        raise ValueError("sparse tensors can be averaged and summed only")
    tensor = tensor.coalesce() if not tensor.is_coalesced() else tensor
    indices = allgather_async(tensor._indices().transpose(0, 1).contiguous(), f"{name}.indices", process_set)
    values = allgather_async(tensor._values(), f"{name}.values", process_set)

    def finish():
        all_values = _ops.synchronize(values)
        all_indices = _ops.synchronize(indices).transpose(0, 1)
        if op == Average:
            all_values = all_values / process_set.size()
        return torch.sparse_coo_tensor(all_indices, all_values, tensor.size())

    return finish


def allgather_async(tensor, name=None, process_set=global_process_set):
    return _ops.start(_adapter, gathered([tensor], name, process_set, False))


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    return _ops.start(_adapter, gathered(list(tensors), name, process_set, True))


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    return _ops.start(_adapter, _ops.broadcast(_adapter, tensor, root_rank, name, process_set, False))


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    return _ops.start(_adapter, _ops.broadcast(_adapter, tensor, root_rank, name, process_set, True))


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    return _ops.run(_adapter, _ops.broadcast(_adapter, tensor, root_rank, name, process_set, True))


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    return _ops.start(_adapter, exchanged(tensor, splits, name, process_set))


def reducescatter_async(
    tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    scales = prescale_factor, postscale_factor
    return _ops.start(_adapter, scattered([tensor], op, scales, name, process_set, False))


def grouped_reducescatter_async(
    tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    scales = prescale_factor, postscale_factor
    return _ops.start(_adapter, scattered(list(tensors), op, scales, name, process_set, True))


def join(device=-1):
    """Says that this rank has no more data; waits until nobody has, and returns the rank that was last."""
    return _ops.join()
