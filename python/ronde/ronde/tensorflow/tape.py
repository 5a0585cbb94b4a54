"""Gradient tapes whose gradients are everybody's."""

import tensorflow as tf

from ronde._operations import chosen_groups
from ronde.process_sets import global_process_set
from ronde.tensorflow.compression import Compression
from ronde.tensorflow.gradients import Reducer
from ronde.tensorflow.mpi_ops import Average


def _distributed(kind, reducer):
    """A class of tapes whose gradients are reduced."""

    class Tape(kind):
        _distributed_class = kind

        def register_local_source(self, source):
            """Registers a source as this rank's own: its gradient is not reduced."""
            reducer.keep_local(source)

        def gradient(self, target, sources, output_gradients=None, use_generic_names=False, **kwargs):
            grads = super().gradient(target, sources, output_gradients, **kwargs)
            reduced = reducer.reduce(tf.nest.flatten(grads), tf.nest.flatten(sources), use_generic_names)
            return tf.nest.pack_sequence_as(grads, reduced)

        def get_local_and_global_gradients(self, target, sources, output_gradients=None, use_generic_names=False):
            grads = self.gradient(target, sources, output_gradients, use_generic_names)
            pairs = list(zip(sources, grads))
            local = [pair for pair in pairs if reducer.is_local(pair[0])]
            return local, [pair for pair in pairs if not reducer.is_local(pair[0])]

    Tape.__name__ = Tape.__qualname__ = kind.__name__
    return Tape


def DistributedGradientTape(
    gradtape,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    op=Average,
    gradient_predivide_factor=1.0,
    num_groups=0,
    groups=None,
    process_set=global_process_set,
    scale_local_gradients=True,
):
    """The tape, with gradients that are reduced over all ranks."""
    reducer = Reducer(
        "DistributedGradientTape",
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
    # What it has recorded stays: only its class changes.
    gradtape.__class__ = _distributed(getattr(gradtape, "_distributed_class", type(gradtape)), reducer)
    return gradtape


def PartialDistributedGradientTape(
    gradtape,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    op=Average,
    gradient_predivide_factor=1.0,
    num_groups=0,
    groups=None,
    process_set=global_process_set,
    local_layers=None,
    scale_local_gradients=True,
):
    """The same, but for the variables of some layers, which are this rank's own."""
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for variable in local_variables(local_layers):
        tape.register_local_source(variable)
    return tape


def local_variables(layers):
    """The variables of layers that are given as one, some or none."""
    layers = [] if layers is None else layers if isinstance(layers, (list, tuple, set)) else [layers]
    return [variable for layer in layers for variable in layer.trainable_weights]
