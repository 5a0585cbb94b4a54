"""A sampler for `tf.data` that knows which samples of an epoch are done, whoever did them."""

import numpy as np
import tensorflow as tf

from ronde._sampler import ShardedSampler


class ElasticSampler(ShardedSampler):
    """Cuts what is left of an epoch among the ranks that are there; `dataset` is anything that has a length."""

    def indices(self):
        """A dataset of this rank's samples that are left, by number; each iteration looks anew."""
        spec = tf.TensorSpec([None], tf.int64)

        def look(_):
            return tf.ensure_shape(tf.numpy_function(self._left, [], spec.dtype), spec.shape)

        return tf.data.Dataset.from_tensors(0).map(look).unbatch()

    def _left(self):
        return np.fromiter(self, np.int64, len(self))
