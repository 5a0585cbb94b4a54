"""Gradients of several passes, added up here before they are reduced."""

import tensorflow as tf


class LocalAggregation:
    """Adds gradients up; every so many passes their sum, or average, is used."""

    def __init__(self, passes, is_averaged):
        self._passes = passes
        self._is_averaged = is_averaged
        self._sums = None
        # Passes since gradients were used last.
        self.counter = None

    def step(self, grads, use, skip=lambda: None):
        """Takes the gradients of a pass; calls `use` with what they have become, if it is time, and else `skip`."""
        grads = [tf.convert_to_tensor(grad) if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
        if self._sums is None:
            self._make_variables(grads)
        added = [total.assign_add(grad) for total, grad in zip(self._sums, grads) if total is not None]
        with tf.control_dependencies([*added, self.counter.assign_add(1)]):
            return tf.cond(tf.equal(self.counter, self._passes), lambda: self._flush(use), lambda: _after(skip()))

    def _make_variables(self, grads):
        with tf.init_scope():
            self.counter = tf.Variable(0, trainable=False, dtype=tf.int64)
            self._sums = [
                None if grad is None else tf.Variable(tf.zeros(grad.shape, grad.dtype), trainable=False)
                for grad in grads
            ]

    def _flush(self, use):
        sums = [None if total is None else total.read_value() for total in self._sums]
        if self._is_averaged:
            sums = [None if total is None else total / self._passes for total in sums]
        done = use(sums)
        with tf.control_dependencies(_operations(done)):
            zeros = [total.assign(tf.zeros_like(total)) for total in self._sums if total is not None]
            return _after([*zeros, self.counter.assign(0)])


def _operations(results):
    return [each for each in tf.nest.flatten(results) if each is not None]


def _after(results):
    """Something that both ways of a condition can return."""
    with tf.control_dependencies(_operations(results)):
        return tf.no_op()
