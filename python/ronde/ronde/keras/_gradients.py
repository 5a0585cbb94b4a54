"""The gradients of one optimizer on their way: reduced once, as early as somebody needs them reduced.

That is where they are applied, or before: mixed precision skips a step whose gradients are not finite, and all ranks must
skip the same steps.
"""

import contextlib


class Gradients:
    """Reduces gradients with `reduce(grads, variables)`; those of several passes are added up before."""

    def __init__(self, reduce, aggregation=None):
        self._reduce = reduce
        self.aggregation = aggregation
        self._early = []
        self._is_checked = False

    def use(self, optimizer, grads, variables, act):
        """Calls `act` with the gradients of all ranks; when passes are added up, only if it is time."""
        if self.aggregation is not None:
            count = _iterations(optimizer)
            return self.aggregation.step(
                grads, lambda sums: act(self._reduce(sums, variables)), lambda: count.assign_add(1)
            )
        is_reduced = self._is_checked or any(grad is each for grad in grads for each in self._early)
        self._early = []
        return act(grads if is_reduced else self._reduce(grads, variables))

    def reduce_early(self, grads, variables):
        """The gradients of all ranks, for whoever wants to see them before they are applied."""
        if self.aggregation is not None:
            return grads
        reduced = self._reduce(grads, variables)
        self._early = [grad for grad in reduced if grad is not None]
        return reduced

    @contextlib.contextmanager
    def checked(self, grads, variables):
        """Gradients that either all ranks find finite or none does. What is made of them is not reduced again."""
        if self.aggregation is not None:
            yield agreed(grads)
            return
        self._is_checked = True
        try:
            yield self._reduce(grads, variables)
        finally:
            self._is_checked = False


def _iterations(optimizer):
    """The counter of steps: with Keras's own accumulation the public one is a fraction of it."""
    count = getattr(optimizer, "_iterations", None)
    return optimizer.iterations if count is None else count


def agreed(grads):
    """The rank's own gradients, but none of them finite if those of any rank are not."""
    import tensorflow as tf

    from ronde.tensorflow.mpi_ops import Min, _allreduce

    dense = [grad.values if isinstance(grad, tf.IndexedSlices) else grad for grad in grads if grad is not None]
    is_finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(grad)) for grad in dense])
    is_finite = _allreduce(tf.cast(is_finite, tf.int32), "gradients_are_finite", op=Min)
    spoil = tf.where(tf.equal(is_finite, 1), 0.0, float("nan"))

    def spoiled(grad):
        if isinstance(grad, tf.IndexedSlices):
            return tf.IndexedSlices(spoiled(grad.values), grad.indices, grad.dense_shape)
        return None if grad is None else grad + tf.cast(spoil, grad.dtype)

    return [spoiled(grad) for grad in grads]
