"""The engine's operations, made of what the backends of torch.distributed have.

Nothing here waits for the device: backends that queue their work let the stream wait, which is all that `wait()` of
theirs means.
"""

import torch
import torch.distributed as dist

from ronde._operations import Adasum, Max, Min, Product, Sum
from ronde._ronde import TYPE_CODES

_TYPES = {code: getattr(torch, name) for name, code in TYPE_CODES.items() if hasattr(torch, name)}
_OPS = {Sum: "SUM", Min: "MIN", Max: "MAX", Product: "PRODUCT"}
_VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2] if part.isdigit())
# A vector shorter than this, squared, has no direction: the engine's own bound.
_NOTHING = 1.4916681462400413e-154


class Members:
    """A group of a backend, with what is known of it."""

    def __init__(self, group, backend, me, size):
        self.group, self.me, self.size = group, me, size
        # Gloo of old has some forms only in which each member has a tensor of its own.
        self._is_old = backend == "gloo" and _VERSION < (2, 7)

    def allreduce(self, tensor, op=Sum):
        if tensor.numel():
            options = dist.AllreduceOptions()
            options.reduceOp = getattr(dist.ReduceOp, _OPS[op])
            self.group.allreduce([tensor], options).wait()

    def broadcast(self, tensor, root):
        if tensor.numel():
            options = dist.BroadcastOptions()
            options.rootRank, options.rootTensor = root, 0
            self.group.broadcast([tensor], options).wait()

    def allgather(self, output, tensor, rows):
        """Members' rows, one after the other."""
        if output.numel() and len(set(rows)) == 1 and not self._is_old:
            self.group._allgather_base(output, tensor).wait()
            return
        parts = output.split(rows)
        parts[self.me].copy_(tensor)
        for member, part in enumerate(parts):
            self.broadcast(part, member)

    def reduce_scatter(self, output, tensor, rows):
        if len(set(rows)) == 1 and not self._is_old:
            if tensor.numel():
                self.group._reduce_scatter_base(output, tensor, dist.ReduceScatterOptions()).wait()
            return
        whole = tensor.clone()
        self.allreduce(whole)
        output.copy_(whole.split(rows)[self.me])

    def alltoall(self, output, tensor, received, sent):
        self.group.alltoall_base(output, tensor, received, sent).wait()


def carry_out(batch, members, device, operations):
    """Does what all members do now. An operation that is none is one of others: this rank has joined."""
    tensors, results = [], []
    for operation, (_, specs, _, _) in zip(operations, batch.operations):
        if operation is None:
            neutral = [_neutral(batch.reduction[0], _TYPES[code], shape, device) for code, shape in specs]
            tensors += neutral
            results += neutral
        else:
            tensors += operation.staged
            results += operation.room()
    with torch.no_grad():
        made = _BY_KIND[batch.kind](batch, members, tensors, results)
    if made is not None:
        operations[0].results = made


def _neutral(op, dtype, shape, device):
    """What changes nothing."""
    if op in (Min, Max):
        limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
        value = limits.max if op == Min else limits.min
        if dtype.is_floating_point:
            value = float("inf") if op == Min else float("-inf")
    else:
        value = 1 if op == Product else 0
    return torch.full(shape, value, dtype=dtype, device=device)


def _scale(tensor, factor):
    if factor == 1:
        return
    if tensor.is_floating_point():
        tensor.mul_(factor)
    else:
        tensor.copy_(tensor.double().mul_(factor))


def _allreduce(batch, members, tensors, results):
    op, before, after = batch.reduction
    if op == Adasum or len(tensors) == 1:
        for tensor, result in zip(tensors, results):
            if result is not tensor:
                result.copy_(tensor)
            _scale(result, before)
            _adasum(members, result) if op == Adasum else members.allreduce(result, op)
            _scale(result, after)
        return
    # Groups may be of several types.
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        alike = [(tensor, result) for tensor, result in zip(tensors, results) if tensor.dtype == dtype]
        whole = torch.cat([tensor.view(-1) for tensor, _ in alike])
        _scale(whole, before)
        members.allreduce(whole, op)
        _scale(whole, after)
        for (_, result), part in zip(alike, whole.split([tensor.numel() for tensor, _ in alike])):
            result.view(-1).copy_(part)


def _adasum(members, vector):
    """Replaces the vector by that of all members: the engine's algorithm. Each member holds a part of all vectors."""
    size = members.size
    if size == 1 or not vector.numel():
        return
    length = -(-vector.numel() // size)
    flat = torch.zeros(length * size, dtype=vector.dtype, device=vector.device)
    flat[: vector.numel()].copy_(vector.view(-1))
    columns = torch.empty_like(flat)
    members.alltoall(columns, flat, [], [])
    vectors = list(columns.view(size, length).double())
    while len(vectors) > 1:
        pairs = list(zip(vectors[::2], vectors[1::2]))
        products = torch.stack([torch.stack([a.dot(b), a.dot(a), b.dot(b)]) for a, b in pairs])
        members.allreduce(products)
        joined = [_joined(a, b, own) for (a, b), own in zip(pairs, products)]
        vectors = joined + vectors[2 * len(pairs) :]
    members.allgather(flat, vectors[0].to(vector.dtype), [length] * size)
    vector.view(-1).copy_(flat[: vector.numel()])


def _joined(a, b, products):
    def factor(squared):
        return torch.where(squared < _NOTHING, torch.ones_like(squared), 1 - products[0] / (2 * squared))

    return a * factor(products[1]) + b * factor(products[2])


def _broadcast(batch, members, tensors, results):
    for tensor, result in zip(tensors, results):
        if members.me == batch.root and result is not tensor:
            result.copy_(tensor)
        members.broadcast(result, batch.root)


def _allgather(batch, members, tensors, _):
    made = []
    for tensor, rows in zip(tensors, batch.operations[0][2]):
        made.append(tensor.new_empty((sum(rows), *tensor.shape[1:])))
        members.allgather(made[-1], tensor, rows)
    return made


def _reducescatter(batch, members, tensors, _):
    _, before, after = batch.reduction
    made = []
    for tensor in tensors:
        each, more = divmod(tensor.shape[0], members.size)
        rows = [each + (member < more) for member in range(members.size)]
        if before != 1:
            tensor = tensor.clone()
            _scale(tensor, before)
        made.append(tensor.new_empty((rows[members.me], *tensor.shape[1:])))
        members.reduce_scatter(made[-1], tensor, rows)
        _scale(made[-1], after)
    return made


def _alltoall(batch, members, tensors, _):
    (tensor,), splits = tensors, batch.operations[0][3]
    sent, received = splits[members.me], [each[members.me] for each in splits]
    output = tensor.new_empty((sum(received), *tensor.shape[1:]))
    if any(map(any, splits)) and tensor.shape[1:].numel():
        members.alltoall(output, tensor.narrow(0, 0, sum(sent)), received, sent)
    return [output]


_BY_KIND = {
    "allreduce": _allreduce,
    "broadcast": _broadcast,
    "allgather": _allgather,
    "reducescatter": _reducescatter,
    "alltoall": _alltoall,
}
