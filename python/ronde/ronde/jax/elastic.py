"""Elastic training with JAX."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np

from ronde import elastic
from ronde._basics import basics
from ronde._objects import broadcast_object
from ronde._sampler import ShardedSampler
from ronde.elastic import State
from ronde.exceptions import HorovodInternalError
from ronde.jax._compatible import JaxRuntimeError
from ronde.jax.functions import broadcast_leaves


def _is_of_the_ring(error):
    """Whether XLA tells of a ring that broke, in its own way; what ranks disagree about is refused instead."""
    return re.search(r"Horovod\w+ `.*` failed: ", str(error)) is not None


def run(func):
    """Decorates a function of a state."""
    return run_fn(func, elastic.reset)


def run_fn(func, reset):
    """Runs a training function until it ends, through all changes of the ring."""

    @functools.wraps(func)
    def translated(state, *args, **kwargs):
        try:
            return func(state, *args, **kwargs)
        except (JaxRuntimeError, ValueError) as error:
            if _is_of_the_ring(error):
                raise HorovodInternalError(str(error)) from error
            raise

    return elastic.run_fn(translated, functools.partial(_reset, reset))


def _reset(reset):
    """A new ring. What was compiled may have the old ring's size in it, or this rank's old number."""
    before = _place()
    reset()
    if _place() != before:
        jax.clear_caches()


def _place():
    return (basics.rank(), basics.size()) if basics.is_initialized() else None


class ElasticSampler(ShardedSampler):
    """Cuts what is left of an epoch among the ranks that are there; gives the numbers of samples."""


class JaxState(State):
    """Pytrees, samplers and plain attributes, given as keywords.

    What is saved is a copy: computations may take the memory of their arguments for their results.
    """

    def __init__(self, **kwargs):
        super().__init__(broadcast_object, basics.rank)
        self._names = list(kwargs)
        self._saved = {}
        for name, value in kwargs.items():
            setattr(self, name, value)
        self.save()

    def save(self):
        values = {name: _saved(getattr(self, name)) for name in self._names}
        # Not before all of them are computed: what failed must not replace the last commit.
        jax.block_until_ready(jax.tree_util.tree_leaves(list(values.values())))
        self._saved = values

    def restore(self):
        for name, saved in self._saved.items():
            value = getattr(self, name)
            if isinstance(value, ShardedSampler):
                value.load_state_dict(saved)
            else:
                setattr(self, name, _copied(saved))

    def sync(self):
        samplers = {name: value for name, value in self._values().items() if isinstance(value, ShardedSampler)}
        for value in samplers.values():
            value.sync()
        plain = {name: value for name, value in self._values().items() if name not in samplers}
        leaves, structure = jax.tree_util.tree_flatten(plain)
        leaves = broadcast_leaves(leaves, 0, "state")
        for name, value in jax.tree_util.tree_unflatten(structure, leaves).items():
            setattr(self, name, value)
        self.save()

    def reset(self):
        for value in self._values().values():
            if isinstance(value, ShardedSampler):
                value.reset()

    def _values(self):
        return {name: getattr(self, name) for name in self._names}


def _saved(value):
    return value.state_dict() if isinstance(value, ShardedSampler) else _copied(value)


def _copied(value):
    def copy(leaf):
        if isinstance(leaf, jax.Array):
            return jnp.copy(leaf)
        return leaf.copy() if isinstance(leaf, np.ndarray) else leaf

    return jax.tree_util.tree_map(copy, value)


__all__ = ["ElasticSampler", "JaxState", "run", "run_fn"]
