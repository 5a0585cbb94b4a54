"""Operations that wait, and have gradients."""

import torch
from torch.autograd import Function

from ronde import _ops
from ronde._ops import Average, Sum
from ronde.process_sets import global_process_set
from ronde.torch import _adapter, _async
from ronde.torch.compression import Compression


def _reduce_plain(tensors, op, scales, name, process_set):
    return _ops.run(_adapter, _async.reduced(list(tensors), op, scales, name, process_set, False, True))


class HorovodAllreduce(Function):
    @staticmethod
    def forward(ctx, tensor, op, scales, name, process_set):
        ctx.how = op, scales, process_set
        return _ops.run(_adapter, _async.reduced([tensor], op, scales, name, process_set, False, False))

    @staticmethod
    def backward(ctx, grad):
        op, scales, process_set = ctx.how
        return HorovodAllreduce.apply(grad, op, scales, None, process_set), None, None, None, None


class HorovodGroupedAllreduce(Function):
    @staticmethod
    def forward(ctx, op, scales, name, process_set, *tensors):
        ctx.how = op, scales, process_set
        return tuple(_reduce_plain(tensors, op, scales, name, process_set))

    @staticmethod
    def backward(ctx, *grads):
        op, scales, process_set = ctx.how
        return (None, None, None, None, *HorovodGroupedAllreduce.apply(op, scales, None, process_set, *grads))


class HorovodGroupedAllgather(Function):
    @staticmethod
    def forward(ctx, is_group, name, process_set, *tensors):
        ctx.rows = [tensor.shape[0] if tensor.dim() else 1 for tensor in tensors]
        ctx.process_set = process_set
        results = _ops.run(_adapter, _async.gathered(list(tensors), name, process_set, is_group))
        return tuple(results) if is_group else (results,)

    @staticmethod
    def backward(ctx, *grads):
        grads = _reduce_plain(grads, Average, (1.0, 1.0), None, ctx.process_set)
        all_rows = torch.tensor([ctx.rows], dtype=torch.int64)
        all_rows = _ops.run(_adapter, _async.gathered([all_rows], None, ctx.process_set, False))
        before = all_rows[: ctx.process_set.rank()].sum(dim=0).tolist()
        return (None, None, None, *(grad.narrow(0, at, own) for grad, at, own in zip(grads, before, ctx.rows)))


class HorovodBroadcast(Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.is_root = root_rank == process_set.ranks[process_set.rank()]
        ctx.process_set = process_set
        return _ops.run(_adapter, _ops.broadcast(_adapter, tensor, root_rank, name, process_set, False))

    @staticmethod
    def backward(ctx, grad):
        [grad] = _reduce_plain([grad], Average, (1.0, 1.0), None, ctx.process_set)
        return grad if ctx.is_root else grad * 0, None, None, None


class HorovodAlltoall(Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        output, received = _ops.run(_adapter, _async.exchanged(tensor, splits, name, process_set))
        ctx.received = received
        ctx.process_set = process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, grad, _received):
        grad, _ = HorovodAlltoall.apply(grad, ctx.received, None, ctx.process_set)
        return grad, None, None, None


class HorovodGroupedReducescatter(Function):
    @staticmethod
    def forward(ctx, is_group, op, scales, name, process_set, *tensors):
        ctx.how = op, scales, process_set
        results = _ops.run(_adapter, _async.scattered(list(tensors), op, scales, name, process_set, is_group))
        return tuple(results) if is_group else (results,)

    @staticmethod
    def backward(ctx, *grads):
        op, (prescale, postscale), process_set = ctx.how
        factor = prescale * postscale * (process_set.size() if op == Sum else 1)
        grads = [grad * factor if factor != 1 else grad for grad in grads]
        grads = _ops.run(_adapter, _async.gathered(grads, None, process_set, True))
        return (None, None, None, None, None, *grads)


def _is_tracked(tensors):
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def allreduce(
    tensor,
    average=None,
    name=None,
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
):
    op = _ops.reduce_op(op, average)
    small, ctx = compression.compress(tensor)
    result = HorovodAllreduce.apply(small, op, (prescale_factor, postscale_factor), name, process_set)
    return compression.decompress(result, ctx)


def grouped_allreduce(
    tensors,
    average=None,
    name=None,
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
):
    op = _ops.reduce_op(op, average)
    small, contexts = zip(*(compression.compress(tensor) for tensor in tensors))
    results = HorovodGroupedAllreduce.apply(op, (prescale_factor, postscale_factor), name, process_set, *small)
    return [compression.decompress(result, ctx) for result, ctx in zip(results, contexts)]


def allgather(tensor, name=None, process_set=global_process_set):
    if not _is_tracked([tensor]):
        return _ops.run(_adapter, _async.gathered([tensor], name, process_set, False))
    return HorovodGroupedAllgather.apply(False, name, process_set, tensor)[0]


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    return list(HorovodGroupedAllgather.apply(True, name, process_set, *tensors))


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    if not _is_tracked([tensor]):
        return _ops.run(_adapter, _ops.broadcast(_adapter, tensor, root_rank, name, process_set, False))
    return HorovodBroadcast.apply(tensor, root_rank, name, process_set)


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    output, received = HorovodAlltoall.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, received)


def reducescatter(
    tensor,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    small, ctx = compression.compress(tensor)
    scales = prescale_factor, postscale_factor
    [result] = HorovodGroupedReducescatter.apply(False, op, scales, name, process_set, small)
    return compression.decompress(result, ctx)


def grouped_reducescatter(
    tensors,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    small, contexts = zip(*(compression.compress(tensor) for tensor in tensors))
    scales = prescale_factor, postscale_factor
    results = HorovodGroupedReducescatter.apply(True, op, scales, name, process_set, *small)
    return [compression.decompress(result, ctx) for result, ctx in zip(results, contexts)]
