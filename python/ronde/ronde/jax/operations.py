"""Operations as callers know them, inside of `jax.jit` and outside, with gradients."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ronde._basics import basics
from ronde._operations import Adasum, Average, Sum, check_op, reduce_op
from ronde.jax import _primitive
from ronde.jax._arrays import waiting
from ronde.jax._call import Call
from ronde.jax.compression import Compression
from ronde.process_sets import global_process_set


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
    """Everybody's tensors, reduced to one that everybody gets."""
    op = reduce_op(op, average)
    tensor, context = compression.compress(tensor)
    if isinstance(tensor, Tracer):
        call = _reduction("allreduce", op, prescale_factor, postscale_factor, process_set, name)
        result = _traced(call, [tensor])[0]
    else:
        result = waiting.allreduce(tensor, None, name, op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(result, context)


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
    """The same with many tensors, which are done together."""
    op = reduce_op(op, average)
    call = _reduction("allreduce", op, prescale_factor, postscale_factor, process_set, name, is_group=True)
    return _compressed(call, tensors, compression)


def allgather(tensor, name=None, process_set=global_process_set):
    """Everybody's rows, in the order of the ranks; inside of jit all have the same number of rows."""
    if isinstance(tensor, Tracer):
        return _traced(_call("allgather", process_set, name), [tensor])[0]
    return waiting.allgather(tensor, name, process_set)


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """The same with many tensors, which are done together."""
    return _collect(_call("allgather", process_set, name, is_group=True), list(tensors))


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """The root's tensor."""
    if isinstance(tensor, Tracer):
        return _traced(_call("broadcast", process_set, name, number=int(root_rank)), [tensor])[0]
    return waiting.broadcast(tensor, root_rank, name, process_set)


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Rows to each member, as many as `splits` says; with splits also how many came from each."""
    if isinstance(tensor, Tracer) or isinstance(splits, Tracer):
        if splits is not None:
            raise ValueError(
                "alltoall inside of jit takes no splits: how many rows come is not known when it is compiled"
            )
        return _traced(_call("alltoall", process_set, name), [tensor])[0]
    result = waiting.alltoall(tensor, splits, name, process_set)
    return result[0] if splits is None else result


def reducescatter(
    tensor,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """Everybody's tensors, reduced, and of that this rank's share of the rows."""
    tensor, context = compression.compress(tensor)
    if isinstance(tensor, Tracer):
        call = _reduction("reducescatter", op, prescale_factor, postscale_factor, process_set, name)
        result = _traced(call, [tensor])[0]
    else:
        result = waiting.reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor)
    return compression.decompress(result, context)


def grouped_reducescatter(
    tensors,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """The same with many tensors, which are done together."""
    call = _reduction("reducescatter", op, prescale_factor, postscale_factor, process_set, name, is_group=True)
    return _compressed(call, tensors, compression)


def psum(values, name=None, compression=Compression.none, process_set=global_process_set):
    """The sum over all ranks, of every array of a pytree, in one operation."""
    return _reduce_tree(values, Sum, name, compression, process_set)


def pmean(values, name=None, compression=Compression.none, process_set=global_process_set):
    """The average over all ranks, of every array of a pytree, in one operation."""
    return _reduce_tree(values, Average, name, compression, process_set)


def _reduce_tree(values, op, name, compression, process_set):
    leaves, structure = jax.tree_util.tree_flatten(values)
    reduced = grouped_allreduce(leaves, name=name, compression=compression, op=op, process_set=process_set)
    return jax.tree_util.tree_unflatten(structure, reduced)


# --- what is asked ---------------------------------------------------------------------------------------------------


def _call(kind, process_set, name, is_group=False, **how):
    if process_set.process_set_id is None:
        raise ValueError(f"{kind}: Process set provided does not exist, or has not been registered.")
    ranks = process_set.ranks
    position = ranks.index(basics.rank()) if basics.rank() in ranks else 0
    return Call(
        kind,
        process_set_id=process_set.process_set_id,
        members=len(ranks),
        position=position,
        name=name,
        is_group=is_group,
        **how,
    )


def _reduction(kind, op, prescale_factor, postscale_factor, process_set, name, is_group=False):
    check_op(op)
    how = {"number": op, "prescale_factor": float(prescale_factor), "postscale_factor": float(postscale_factor)}
    return _call(kind, process_set, name, is_group, **how)


def _compressed(call, tensors, compression):
    pairs = [compression.compress(tensor) for tensor in tensors]
    results = _collect(call, [tensor for tensor, _ in pairs])
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]


# --- and done --------------------------------------------------------------------------------------------------------


def _collect(call, tensors):
    if any(isinstance(tensor, Tracer) for tensor in tensors):
        return _traced(call, tensors)
    return _run(call, tensors) if tensors else []


def _traced(call, tensors):
    return list(_differentiable(call, [jnp.asarray(tensor) for tensor in tensors]))


class _Set:
    """A process set by its number: what an operation at once needs of it."""

    def __init__(self, number):
        self.process_set_id = number


def _run(call, tensors):
    """Does an operation at once."""
    process_set = _Set(call.process_set_id)
    details = {
        "allreduce": (call.number, call.prescale_factor, call.postscale_factor),
        "reducescatter": (call.number, call.prescale_factor, call.postscale_factor),
        "broadcast": call.number,
    }.get(call.kind)
    if call.is_elementwise:
        result = waiting._same_shape(call.kind, details, tensors, call.name, process_set, False, call.is_group)
    else:
        result = waiting._new_shape(call.kind, details, tensors, call.name, process_set, call.is_group)
    if call.is_group:
        return result
    return [result[0] if call.kind == "alltoall" else result]


_primitive.on_arrays(_run)


# --- gradients -------------------------------------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(call, tensors):
    return _primitive.bind(call, tensors)


def _forward(call, tensors):
    # Outside of jit ranks may have gathered different numbers of rows.
    rows = [np.int32(tensor.shape[0] if tensor.ndim else 0) for tensor in tensors]
    return _primitive.bind(call, tensors), rows


def _backward(call, rows, grads):
    grads = list(grads)
    # Those of integers are of a type of their own, and have no values.
    real = [index for index, grad in enumerate(grads) if grad.dtype != jax.dtypes.float0]
    results = [None] * len(grads)
    if real:
        backward = dataclasses.replace(call, name=None if call.name is None else f"{call.name}.grad")
        found = _gradients(backward, [rows[index] for index in real], [grads[index] for index in real])
        for index, grad in zip(real, found):
            results[index] = grad
    return (results,)


_differentiable.defvjp(_forward, _backward)


def _gradients(call, rows, grads):
    if call.kind == "allreduce":
        if call.number not in (Average, Sum, Adasum):
            raise NotImplementedError("Min, Max and Product have no gradient")
        return _collect(call, grads)
    if call.kind == "allgather":
        return _own_rows(call, rows, grads)
    if call.kind == "broadcast":
        reduced = _collect(dataclasses.replace(call, kind="allreduce", number=Average), grads)
        # All ranks use the result: JAX leaves out what nobody uses.
        return [jnp.where(basics.rank() == call.number, grad, jnp.zeros_like(grad)) for grad in reduced]
    if call.kind == "alltoall":
        return _collect(call, grads)
    factor = call.prescale_factor * call.postscale_factor * (call.members if call.number == Sum else 1)
    spread = dataclasses.replace(call, kind="allgather", number=0, prescale_factor=1.0, postscale_factor=1.0)
    return _collect(spread, [grad * factor if factor != 1 else grad for grad in grads])


def _own_rows(call, rows, grads):
    """Of the average of everybody's gradients, the rows that this rank has given."""
    reduced = _collect(dataclasses.replace(call, kind="allreduce", number=Average), grads)
    results = []
    for count, grad in zip(rows, reduced):
        if isinstance(count, Tracer) or isinstance(grad, Tracer):
            count = grad.shape[0] // call.members
            begin = count * call.position
        else:
            everybodys = _run(dataclasses.replace(call, name=None, is_group=False), [jnp.asarray(count)[None]])[0]
            begin = int(everybodys[: call.position].sum())
        results.append(grad[begin : begin + int(count)])
    return results
