"""Elastic training with TensorFlow."""

import functools

import tensorflow as tf

from ronde import elastic
from ronde._basics import basics
from ronde._objects import broadcast_object
from ronde.elastic import ObjectState
from ronde.exceptions import HorovodInternalError
from ronde.tensorflow.functions import broadcast_variables
from ronde.tensorflow.sampler import ElasticSampler
from ronde.tensorflow.util import _executing_eagerly


def _is_of_the_ring(error):
    """Whether TensorFlow tells of a ring that broke, in its own way."""
    return isinstance(error, tf.errors.UnknownError) and "Horovod" in error.message


def run(func):
    """Decorates a function of a state."""
    return run_fn(func, elastic.reset)


def run_fn(func, reset):
    """Runs a training function until it ends, through all changes of the ring."""

    @functools.wraps(func)
    def translated(state, *args, **kwargs):
        try:
            return func(state, *args, **kwargs)
        except tf.errors.OpError as error:
            if _is_of_the_ring(error):
                raise HorovodInternalError(error.message) from error
            raise

    return elastic.run_fn(translated, reset)


class _VariablesState(ObjectState):
    """Variables, and plain attributes given as keywords."""

    def __init__(self, **kwargs):
        self._saved_values = []
        self._save_variables()
        super().__init__(broadcast_object, basics.rank, **kwargs)

    def _variables(self):
        raise NotImplementedError

    def _read(self, variables):
        return [tf.identity(tf.convert_to_tensor(each)) for each in variables]

    def _save_variables(self):
        self._saved_values = self._read(self._variables())

    def save(self):
        self._save_variables()
        super().save()

    def restore(self):
        # What came to exist after the last commit has no value to go back to.
        for variable, value in zip(self._variables(), self._saved_values):
            variable.assign(value)
        super().restore()

    def sync(self):
        broadcast_variables(self._variables(), root_rank=0)
        super().sync()
        self._save_variables()


class TensorFlowKerasState(_VariablesState):
    """A model, its optimizer, and plain attributes given as keywords."""

    def __init__(self, model, optimizer=None, backend=None, **kwargs):
        if not getattr(model, "built", True):
            raise ValueError("Model must be built first. Run `model.build(input_shape)`.")
        self.model = model
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        self.backend = backend
        _build(self.optimizer, model)
        super().__init__(**kwargs)

    def _variables(self):
        variables = [] if self.optimizer is None else self.optimizer.variables
        return [*self.model.variables, *(variables() if callable(variables) else variables)]


def _build(optimizer, model):
    """Makes the variables of an optimizer: all ranks must have the same, also those that have not trained yet."""
    if optimizer is not None and hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        optimizer.build(model.trainable_variables)


class TensorFlowState(_VariablesState):
    """Variables, and plain attributes given as keywords."""

    def __init__(self, variables=None, session=None, **kwargs):
        self.variables = list(variables or tf.compat.v1.global_variables())
        self.session = session
        if not _executing_eagerly():
            self._make_operations()
        super().__init__(**kwargs)

    def _variables(self):
        return self.variables

    def _make_operations(self):
        """In a graph of TensorFlow 1 nothing may be added once it runs: what will be needed is made now."""
        self.session = self.session or tf.compat.v1.get_default_session()
        self._broadcast = broadcast_variables(self.variables, root_rank=0)
        self._values = [tf.compat.v1.placeholder(each.dtype.base_dtype, each.shape) for each in self.variables]
        pairs = zip(self.variables, self._values)
        self._assign = tf.group(*[variable.assign(value) for variable, value in pairs])

    def _read(self, variables):
        return super()._read(variables) if _executing_eagerly() else self.session.run(variables)

    def restore(self):
        if _executing_eagerly():
            return super().restore()
        self.session.run(self._assign, dict(zip(self._values, self._saved_values)))
        return ObjectState.restore(self)

    def sync(self):
        if _executing_eagerly():
            return super().sync()
        self.session.run(self._broadcast)
        ObjectState.sync(self)
        return self._save_variables()


__all__ = ["ElasticSampler", "TensorFlowKerasState", "TensorFlowState", "run", "run_fn"]
