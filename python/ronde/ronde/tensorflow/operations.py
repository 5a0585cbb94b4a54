"""Reductions as callers know them: compressed, of sparse tensors too."""

import contextlib

import tensorflow as tf

from ronde.process_sets import global_process_set
from ronde.tensorflow import mpi_ops
from ronde.tensorflow.compression import Compression
from ronde.tensorflow.mpi_ops import Adasum, Average, Sum
from ronde.tensorflow.util import is_elastic


def members(process_set, dtype):
    """How many ranks there are: when the graph runs, if that may change."""
    size = mpi_ops.size_op(process_set.process_set_id) if is_elastic() else process_set.size()
    return tf.cast(size, dtype)


_HERE = contextlib.nullcontext()


def _on(device):
    """Where operations run; entering a scope that says nothing takes longer than a small sum."""
    return tf.device(device) if device else _HERE


def _check_sparse(op, prescale_factor, postscale_factor):
    if op == Adasum:
        raise NotImplementedError(
            "Adasum does not reduce sparse tensors; pass sparse_as_dense=True to DistributedOptimizer"
        )
    if op not in (Sum, Average):
        raise NotImplementedError("Only Sum and Average ops are supported with tf.IndexedSlices")
    if (prescale_factor, postscale_factor) != (1.0, 1.0):
        raise NotImplementedError("Pre/postscale_factor are not supported with tf.IndexedSlices")


def _reduce_sparse(slices, op, process_set, ignore_name_scope):
    """Everybody's rows, which together are the sum."""
    where = {"process_set": process_set, "ignore_name_scope": ignore_name_scope}
    values = mpi_ops.grouped_allgather([each.values for each in slices], **where)
    indices = mpi_ops.grouped_allgather([each.indices for each in slices], **where)
    if op == Average:
        values = [each / members(process_set, each.dtype) for each in values]
    rows = zip(values, indices, slices)
    return [tf.IndexedSlices(value, index, dense_shape=each.dense_shape) for value, index, each in rows]


def allreduce(
    tensor,
    average=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    name=None,
    process_set=global_process_set,
    ignore_name_scope=False,
):
    """Everybody's tensors, reduced to one that everybody gets."""
    op = mpi_ops.handle_average_backwards_compatibility(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        _check_sparse(op, prescale_factor, postscale_factor)
        with _on(device_sparse):
            return _reduce_sparse([tensor], op, process_set, ignore_name_scope)[0]
    with _on(device_dense):
        small, ctx = compression.compress(tensor)
        result = mpi_ops._allreduce(
            small, name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set
        )
        return compression.decompress(result, ctx)


def grouped_allreduce(
    tensors,
    average=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
    ignore_name_scope=False,
    name=None,
):
    """The same with many tensors, which are done together."""
    if not tensors:
        return tensors
    op = mpi_ops.handle_average_backwards_compatibility(op, average)
    results = list(tensors)
    sparse = [index for index, each in enumerate(tensors) if isinstance(each, tf.IndexedSlices)]
    dense = [index for index in range(len(results)) if index not in sparse]
    if sparse:
        _check_sparse(op, prescale_factor, postscale_factor)
        with _on(device_sparse):
            reduced = _reduce_sparse([results[index] for index in sparse], op, process_set, ignore_name_scope)
        for index, each in zip(sparse, reduced):
            results[index] = each
    if dense:
        with _on(device_dense):
            small, contexts = zip(*(compression.compress(results[index]) for index in dense))
            reduced = mpi_ops._grouped_allreduce(
                small, name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set
            )
            for index, each, ctx in zip(dense, reduced, contexts):
                results[index] = compression.decompress(each, ctx)
    return results


def reducescatter(
    tensor,
    device_dense="",
    compression=Compression.none,
    op=Average,
    name=None,
    process_set=global_process_set,
    ignore_name_scope=False,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """Everybody's tensors, reduced, and of that this rank's share of the rows."""
    with _on(device_dense):
        small, ctx = compression.compress(tensor)
        result = mpi_ops._reducescatter(
            small, name, op, ignore_name_scope, process_set, prescale_factor, postscale_factor
        )
        return compression.decompress(result, ctx)


def grouped_reducescatter(
    tensors,
    device_dense="",
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """The same with many tensors, which are done together."""
    if not tensors:
        return tensors
    with _on(device_dense):
        small, contexts = zip(*(compression.compress(tensor) for tensor in tensors))
        results = mpi_ops._grouped_reducescatter(
            small, None, op, False, process_set, prescale_factor, postscale_factor
        )
        return [compression.decompress(result, ctx) for result, ctx in zip(results, contexts)]
