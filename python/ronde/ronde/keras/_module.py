"""What `horovod.keras` and `horovod.tensorflow.keras` have in common: all that is no class of Keras's own."""

import numpy as np

from ronde import numpy as arrays
from ronde._basics import __all__ as _basics_names
from ronde._operations import Adasum, Average, Max, Min, Product, Sum, chosen_groups, reduce_op
from ronde.keras import _optimizer
from ronde.keras._backend import NAME, Compression, Reducer, broadcast_global_variables
from ronde.keras._backend import basics as _basics
from ronde.keras._variables import local_variables
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set


def DistributedOptimizer(
    optimizer,
    name=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    gradient_predivide_factor=1.0,
    op=Average,
    backward_passes_per_step=1,
    average_aggregated_gradients=False,
    num_groups=0,
    groups=None,
    process_set=global_process_set,
    scale_local_gradients=True,
):
    """The optimizer, with gradients that are reduced over all ranks before they are applied."""
    if op == Adasum:
        raise ValueError("op == Adasum is not supported yet with Keras")
    reducer = Reducer(
        name or f"Distributed{type(optimizer).__name__}",
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        chosen_groups(num_groups, groups),
        process_set,
        scale_local_gradients,
    )
    return _optimizer.distributed(optimizer, reducer, backward_passes_per_step, average_aggregated_gradients)


def PartialDistributedOptimizer(optimizer, *args, local_layers=None, **kwargs):
    """The same, but for the variables of some layers, which are this rank's own."""
    wrapped = DistributedOptimizer(optimizer, *args, **kwargs)
    for variable in local_variables(local_layers):
        wrapped.register_local_var(variable)
    return wrapped


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
    return _as_result(result if np.ndim(value) else result[()])


def allgather(value, name=None):
    """The values of all ranks, one after the other."""
    return _as_result(arrays.allgather(np.asarray(value), name))


def broadcast(value, root_rank, name=None):
    """The root's value."""
    return _as_result(arrays.broadcast(np.asarray(value), root_rank, name))


def reducescatter(value, name=None, op=Average):
    """The value of all ranks, reduced, and of that this rank's share of the rows."""
    return _as_result(arrays.reducescatter(np.asarray(value), name, op))


def _as_result(array):
    """As Horovod returns it: a tensor where TensorFlow acts at once."""
    if NAME != "tensorflow":
        return array
    import tensorflow as tf

    return tf.convert_to_tensor(array) if tf.executing_eagerly() else array


def load_model(keras, filepath, custom_optimizers, custom_objects, compression):
    """A model that was saved with its optimizer, which is distributed from now on, and goes on where it was."""
    # Horovod saves optimizers under their own names, but as classes of a module that is not here.
    kinds = [each for each in vars(keras.optimizers).values() if isinstance(each, type)]
    objects = {each.__name__: each for each in [*kinds, *(custom_optimizers or [])]}
    model = keras.models.load_model(filepath, custom_objects={**objects, **(custom_objects or {})})
    if getattr(model, "optimizer", None) is not None:
        reducer = Reducer(f"Distributed{type(model.optimizer).__name__}", compression=compression)
        _optimizer.wrap(model.optimizer, reducer)
    return model


for _name in _basics_names:
    globals()[_name] = getattr(_basics, _name)

__all__ = [
    *_basics_names,
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "global_process_set",
    "reducescatter",
    "remove_process_set",
]
