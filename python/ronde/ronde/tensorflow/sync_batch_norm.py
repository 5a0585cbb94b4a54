"""Batch normalisation over the batches of all ranks."""

import tensorflow as tf

from ronde._basics import basics
from ronde.tensorflow.mpi_ops import Sum, _allreduce


_IS_KERAS_2 = hasattr(tf.keras.layers.BatchNormalization, "_calculate_mean_and_var")


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """Mean and variance are those of everybody's batches together."""

    def __init__(self, fused=False, **kwargs):
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        # Keras 2 does images in one operation unless told otherwise, and never asks for mean and variance.
        super().__init__(**kwargs, **({"fused": False} if _IS_KERAS_2 else {}))

    def _together(self, count, total, squares):
        """Sums over all ranks, in one go."""
        if basics.size() == 1:
            return count, total, squares
        every = tf.concat([tf.reshape(count, [1]), tf.reshape(total, [-1]), tf.reshape(squares, [-1])], axis=0)
        every = _allreduce(every, f"SyncBatchNormalization_{self.name}", op=Sum)
        sums = tf.reshape(every[1:], [2, *total.shape])
        return every[0], sums[0], sums[1]

    def _channels(self, inputs):
        """The axis that is not reduced; Keras 2 has it in a list."""
        axis = self.axis if isinstance(self.axis, int) else self.axis[0]
        return axis % inputs.shape.rank

    def _statistics(self, inputs):
        channels = self._channels(inputs)
        axes = [axis for axis in range(inputs.shape.rank) if axis != channels]
        inputs = tf.cast(inputs, tf.float32)
        count = tf.cast(tf.size(inputs), tf.float32) / inputs.shape[channels]
        total = tf.reduce_sum(inputs, axes)
        count, total, squares = self._together(count, total, tf.reduce_sum(inputs * inputs, axes))
        mean = total / count
        return mean, tf.maximum(squares / count - mean * mean, 0.0)

    if _IS_KERAS_2:

        def _calculate_mean_and_var(self, inputs, reduction_axes, keep_dims, mask=None):
            mean, variance = self._statistics(inputs)
            if keep_dims:
                shape = [-1 if axis == self._channels(inputs) else 1 for axis in range(inputs.shape.rank)]
                mean, variance = tf.reshape(mean, shape), tf.reshape(variance, shape)
            return mean, variance

    else:

        def _moments(self, inputs, mask):
            if mask is not None:
                raise ValueError("SyncBatchNormalization does not take masks")
            return self._statistics(inputs)
