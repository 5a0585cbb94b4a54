"""Optimizers that apply everybody's gradients."""

import tensorflow as tf

from ronde._operations import chosen_groups
from ronde.process_sets import global_process_set
from ronde.tensorflow.aggregation import LocalAggregation
from ronde.tensorflow.compression import Compression
from ronde.tensorflow.gradients import Reducer
from ronde.tensorflow.mpi_ops import Adasum, Average
from ronde.tensorflow.util import _executing_eagerly

_LegacyOptimizer = tf.compat.v1.train.Optimizer


class _DistributedOptimizer(_LegacyOptimizer):
    """An optimizer of TensorFlow 1, whose gradients are reduced as they are computed."""

    def __init__(self, optimizer, reducer, use_locking, aggregation):
        super().__init__(name=reducer.name, use_locking=use_locking)
        self._optimizer = optimizer
        self._reducer = reducer
        self._aggregation = aggregation
        self.process_set = reducer.process_set

    def register_local_var(self, var):
        """Registers a variable as this rank's own: its gradient is not reduced."""
        self._reducer.keep_local(var)

    def compute_gradients(self, *args, **kwargs):
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        if self._aggregation is not None:
            return pairs
        grads, variables = zip(*pairs)
        return list(zip(self._reducer.reduce(grads, variables), variables))

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        if self._aggregation is None:
            return self._optimizer.apply_gradients(grads_and_vars, *args, **kwargs)
        grads, variables = zip(*grads_and_vars)

        def use(sums):
            reduced = self._reducer.reduce(sums, variables)
            return self._optimizer.apply_gradients(list(zip(reduced, variables)), *args, **kwargs)

        return self._aggregation.step(grads, use)

    def get_slot(self, *args, **kwargs):
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args, **kwargs):
        return self._optimizer.variables(*args, **kwargs)


def DistributedOptimizer(
    optimizer,
    name=None,
    use_locking=False,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    backward_passes_per_step=1,
    op=Average,
    gradient_predivide_factor=1.0,
    average_aggregated_gradients=False,
    num_groups=0,
    groups=None,
    process_set=global_process_set,
    scale_local_gradients=True,
):
    """The optimizer, with gradients that are reduced over all ranks before they are applied."""
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("Adasum does not support average_aggregated_gradients == True")
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
    if isinstance(optimizer, _LegacyOptimizer):
        aggregation = None
        if backward_passes_per_step > 1:
            if _executing_eagerly():
                raise ValueError(
                    "backward_passes_per_step > 1 is not yet supported for _LegacyOptimizer with eager execution."
                )
            aggregation = LocalAggregation(backward_passes_per_step, average_aggregated_gradients)
        return _DistributedOptimizer(optimizer, reducer, use_locking, aggregation)
    from ronde.keras import _optimizer

    return _optimizer.distributed(optimizer, reducer, backward_passes_per_step, average_aggregated_gradients)
