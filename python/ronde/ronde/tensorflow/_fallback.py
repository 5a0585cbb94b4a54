"""The operations of `_native` through Python, for a TensorFlow that takes none from outside."""

import functools

import numpy as np
import tensorflow as tf

from ronde import numpy as arrays
from ronde.process_sets import ProcessSet


def _set(number):
    """A process set by its number: what an operation needs of it."""
    found = ProcessSet([])
    found.process_set_id = number
    return found


def _call(function, inputs, types, name):
    results = tf.numpy_function(function, inputs, types, stateful=True, name=name)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _same_shapes(results, inputs):
    for result, each in zip(results, inputs):
        result.set_shape(each.shape)
    return results


def _title(name, tensor_name, operation):
    return tensor_name or name or operation


def horovod_grouped_allreduce(
    tensors,
    process_set_id=0,
    ignore_name_scope=0,
    tensor_name="",
    is_inline=0,
    reduce_op=1,
    prescale_factor=1.0,
    postscale_factor=1.0,
    name=None,
):
    title = _title(name, tensor_name, "HorovodGroupedAllreduce")
    how = {"op": reduce_op, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}

    def act(*values):
        return arrays.grouped_allreduce(values, name=title, process_set=_set(process_set_id), **how)

    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    return _same_shapes(_call(act, tensors, [tensor.dtype for tensor in tensors], name), tensors)


def horovod_allreduce(tensor, **options):
    return horovod_grouped_allreduce([tensor], **options)[0]


def _gather(function, tensors, process_set_id, title, name):
    def act(*values):
        return function([np.asarray(value) for value in values], name=title, process_set=_set(process_set_id))

    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    results = _call(act, tensors, [tensor.dtype for tensor in tensors], name)
    for result, tensor in zip(results, tensors):
        if tensor.shape.rank is not None:
            result.set_shape([None, *tensor.shape[1:]])
    return results


def horovod_grouped_allgather(
    tensors, process_set_id=0, ignore_name_scope=0, tensor_name="", is_inline=0, name=None
):
    title = _title(name, tensor_name, "HorovodGroupedAllgather")
    return _gather(arrays.grouped_allgather, tensors, process_set_id, title, name)


def horovod_allgather(tensor, **options):
    return horovod_grouped_allgather([tensor], **options)[0]


def horovod_grouped_reducescatter(
    tensors,
    process_set_id=0,
    ignore_name_scope=0,
    tensor_name="",
    is_inline=0,
    reduce_op=1,
    prescale_factor=1.0,
    postscale_factor=1.0,
    name=None,
):
    title = _title(name, tensor_name, "HorovodGroupedReducescatter")
    function = functools.partial(
        arrays.grouped_reducescatter, op=reduce_op, prescale_factor=prescale_factor, postscale_factor=postscale_factor
    )
    return _gather(function, tensors, process_set_id, title, name)


def horovod_reducescatter(tensor, **options):
    return horovod_grouped_reducescatter([tensor], **options)[0]


def horovod_broadcast(
    tensor, process_set_id=0, ignore_name_scope=0, tensor_name="", is_inline=0, root_rank=0, name=None
):
    title = _title(name, tensor_name, "HorovodBroadcast")
    tensor = tf.convert_to_tensor(tensor)

    def act(value):
        return arrays.broadcast(value, root_rank, title, _set(process_set_id))

    return _same_shapes(_call(act, [tensor], [tensor.dtype], name), [tensor])[0]


def horovod_alltoall(
    tensor, splits, process_set_id=0, ignore_name_scope=0, tensor_name="", is_inline=0, name=None
):
    title = _title(name, tensor_name, "HorovodAlltoall")
    tensor = tf.convert_to_tensor(tensor)

    def act(value, splits):
        given = splits if len(splits) else None
        handle = arrays.alltoall_async(value, given, title, _set(process_set_id))
        return arrays.synchronize(handle)

    return tuple(_call(act, [tensor, splits], [tensor.dtype, tf.int32], name))


def horovod_join(process_set_id=0, ignore_name_scope=0, tensor_name="", is_inline=0, name=None):
    return _call(lambda: np.int32(arrays.join()), [], [tf.int32], name)[0]
