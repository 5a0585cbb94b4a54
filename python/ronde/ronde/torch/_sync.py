"""Operations that wait, and have gradients."""

import torch
from torch.autograd import Function

from ronde._operations import Average, Sum, reduce_op
from ronde.process_sets import global_process_set
from ronde.torch._adapter import checked
from ronde.torch._async import waiting
from ronde.torch.compression import Compression


class HorovodAllreduce(Function):
    @staticmethod
    def forward(ctx, tensor, average, name, op, prescale_factor, postscale_factor, process_set):
        ctx.how = average, None, op, prescale_factor, postscale_factor, process_set
        return waiting.allreduce(tensor, average, name, op, prescale_factor, postscale_factor, process_set)

    @staticmethod
    def backward(ctx, grad):
        return (HorovodAllreduce.apply(grad, *ctx.how), *[None] * 6)


class HorovodGroupedAllreduce(Function):
    @staticmethod
    def forward(ctx, average, name, op, prescale_factor, postscale_factor, process_set, *tensors):
        ctx.how = average, None, op, prescale_factor, postscale_factor, process_set
        return tuple(
            waiting.grouped_allreduce(tensors, average, name, op, prescale_factor, postscale_factor, process_set)
        )

    @staticmethod
    def backward(ctx, *grads):
        return (*[None] * 6, *HorovodGroupedAllreduce.apply(*ctx.how, *grads))


def _own_rows(grads, rows, process_set):
    """Of the averages of all ranks' gradients, the rows that are this rank's."""
    grads = waiting.grouped_allreduce(grads, process_set=process_set)
    all_rows = waiting.allgather(torch.tensor([rows], dtype=torch.int64), process_set=process_set)
    before = all_rows[: process_set.rank()].sum(dim=0).tolist()
    return [grad.narrow(0, at, own) for grad, at, own in zip(grads, before, rows)]


def _rows(tensor):
    return tensor.shape[0] if tensor.dim() else 1


class HorovodAllgather(Function):
    @staticmethod
    def forward(ctx, tensor, name, process_set):
        ctx.rows, ctx.process_set = _rows(tensor), process_set
        return waiting.allgather(tensor, name, process_set)

    @staticmethod
    def backward(ctx, grad):
        return _own_rows([grad], [ctx.rows], ctx.process_set)[0], None, None


class HorovodGroupedAllgather(Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.rows, ctx.process_set = [_rows(tensor) for tensor in tensors], process_set
        return tuple(waiting.grouped_allgather(tensors, name, process_set))

    @staticmethod
    def backward(ctx, *grads):
        return (None, None, *_own_rows(grads, ctx.rows, ctx.process_set))


class HorovodBroadcast(Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.is_root = root_rank == process_set.ranks[process_set.rank()]
        ctx.process_set = process_set
        return waiting.broadcast(tensor, root_rank, name, process_set)

    @staticmethod
    def backward(ctx, grad):
        grad = waiting.allreduce(grad, process_set=ctx.process_set)
        return grad if ctx.is_root else grad * 0, None, None, None


class HorovodAlltoall(Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        output, received = waiting.alltoall(tensor, splits, name, process_set)
        ctx.received = received
        ctx.process_set = process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, grad, _received):
        grad, _ = HorovodAlltoall.apply(grad, ctx.received, None, ctx.process_set)
        return grad, None, None, None


def _spread(grads, how):
    """The gradients of all ranks' shares, together, as those of the whole that was reduced."""
    op, process_set, prescale, postscale = how
    factor = prescale * postscale * (process_set.size() if op == Sum else 1)
    grads = [grad * factor if factor != 1 else grad for grad in grads]
    return waiting.grouped_allgather(grads, process_set=process_set)


class HorovodReducescatter(Function):
    @staticmethod
    def forward(ctx, tensor, name, op, process_set, prescale_factor, postscale_factor):
        ctx.how = op, process_set, prescale_factor, postscale_factor
        return waiting.reducescatter(tensor, name, *ctx.how)

    @staticmethod
    def backward(ctx, grad):
        return (*_spread([grad], ctx.how), *[None] * 5)


class HorovodGroupedReducescatter(Function):
    @staticmethod
    def forward(ctx, name, op, process_set, prescale_factor, postscale_factor, *tensors):
        ctx.how = op, process_set, prescale_factor, postscale_factor
        return tuple(waiting.grouped_reducescatter(tensors, name, *ctx.how))

    @staticmethod
    def backward(ctx, *grads):
        return (*[None] * 5, *_spread(grads, ctx.how))


def _is_tracked(tensors):
    return torch.is_grad_enabled() and any(checked(tensor).requires_grad for tensor in tensors)


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
    op = reduce_op(op, average)
    small, ctx = compression.compress(checked(tensor))
    result = HorovodAllreduce.apply(small, None, name, op, prescale_factor, postscale_factor, process_set)
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
    op = reduce_op(op, average)
    small, contexts = zip(*(compression.compress(checked(tensor)) for tensor in tensors))
    results = HorovodGroupedAllreduce.apply(None, name, op, prescale_factor, postscale_factor, process_set, *small)
    return [compression.decompress(result, ctx) for result, ctx in zip(results, contexts)]


def allgather(tensor, name=None, process_set=global_process_set):
    if not _is_tracked([tensor]):
        return waiting.allgather(tensor, name, process_set)
    return HorovodAllgather.apply(tensor, name, process_set)


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    return list(HorovodGroupedAllgather.apply(name, process_set, *map(checked, tensors)))


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    if not _is_tracked([tensor]):
        return waiting.broadcast(tensor, root_rank, name, process_set)
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
    small, ctx = compression.compress(checked(tensor))
    result = HorovodReducescatter.apply(small, name, op, process_set, prescale_factor, postscale_factor)
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
    small, contexts = zip(*(compression.compress(checked(tensor)) for tensor in tensors))
    results = HorovodGroupedReducescatter.apply(name, op, process_set, prescale_factor, postscale_factor, *small)
    return [compression.decompress(result, ctx) for result, ctx in zip(results, contexts)]
