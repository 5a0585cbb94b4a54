"""What `horovod.keras` and `horovod.tensorflow.keras` have in common, for a Keras that is given."""

import numpy as np

from ronde import numpy as arrays
from ronde._operations import reduce_op
from ronde.keras import _optimizer
from ronde.tensorflow.compression import Compression
from ronde.tensorflow.gradients import Reducer, one_of
from ronde.tensorflow.mpi_ops import Adasum, Average
from ronde.tensorflow.tape import local_variables


def distributed_optimizer(optimizer, name, options, passes=1, is_averaged=False, local_layers=None):
    if options.get("op") == Adasum:
        raise ValueError("op == Adasum is not supported yet with Keras")
    options["groups"] = one_of(options.pop("num_groups", 0), options.get("groups"))
    reducer = Reducer(name or f"Distributed{type(optimizer).__name__}", **options)
    for variable in local_variables(local_layers):
        reducer.keep_local(variable)
    return _optimizer.distributed(optimizer, reducer, passes, is_averaged)


def allreduce(
    value,
    name=None,
    average=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    op=None,
    compression=Compression.none,
):
    """The value of all ranks, reduced; numbers and arrays alike."""
    op = reduce_op(op, average)
    result = arrays.allreduce(
        np.asarray(value), name=name, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor
    )
    return result if np.ndim(value) else result[()]


def allgather(value, name=None):
    """The values of all ranks, one after the other."""
    return arrays.allgather(np.asarray(value), name)


def broadcast(value, root_rank, name=None):
    """The root's value."""
    return arrays.broadcast(np.asarray(value), root_rank, name)


def reducescatter(value, name=None, op=Average):
    """The value of all ranks, reduced, and of that this rank's share of the rows."""
    return arrays.reducescatter(np.asarray(value), name, op)


def load_model(keras, filepath, custom_optimizers, custom_objects, compression):
    """A model that was saved with its optimizer, which is distributed from now on, and goes on where it was."""
    objects = {each.__name__: each for each in custom_optimizers or []}
    model = keras.models.load_model(filepath, custom_objects={**objects, **(custom_objects or {})})
    if getattr(model, "optimizer", None) is not None:
        reducer = Reducer(f"Distributed{type(model.optimizer).__name__}", compression=compression)
        _optimizer.wrap(model.optimizer, reducer)
    return model
