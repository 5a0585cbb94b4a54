"""Parameters and objects from one rank to all."""

import jax
import jax.numpy as jnp
import numpy as np

from ronde import _objects
from ronde._operations import synchronize
from ronde._ronde import TYPE_CODES
from ronde.jax._arrays import starting
from ronde.process_sets import global_process_set


def broadcast_parameters(params, root_rank=0, name=None, process_set=global_process_set):
    """The root's values of a pytree: arrays, numbers, keys of random numbers, and whatever can be pickled."""
    leaves, structure = jax.tree_util.tree_flatten(params)
    results = broadcast_leaves(leaves, root_rank, name or "broadcast_parameters", process_set)
    return jax.tree_util.tree_unflatten(structure, results)


def broadcast_leaves(leaves, root_rank, name, process_set=global_process_set):
    """The root's values, each of the kind that it was."""
    handles, objects = {}, {}
    for number, leaf in enumerate(leaves):
        if hasattr(leaf, "dtype"):
            handles[number] = starting.broadcast(_sent(leaf), root_rank, f"{name}.{number}", process_set)
        else:
            objects[number] = leaf
    if objects:
        objects = _objects.broadcast_object(objects, root_rank, f"{name}.objects", process_set)
    results = list(leaves)
    for number, handle in handles.items():
        results[number] = _received(synchronize(handle), leaves[number])
    for number, value in objects.items():
        results[number] = value
    return results


def _is_key(leaf):
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _sent(leaf):
    """An array as it travels: as bytes, if it is of a type that cannot be reduced."""
    leaf = jnp.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    if leaf.dtype.name in TYPE_CODES:
        return leaf
    return jnp.asarray(np.asarray(leaf).reshape(-1).view(np.uint8))


def _received(value, leaf):
    if _is_key(leaf):
        data = _received(value, jax.random.key_data(leaf))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    if value.dtype != leaf.dtype and leaf.dtype.name not in TYPE_CODES:
        return jnp.asarray(np.asarray(value).view(leaf.dtype).reshape(leaf.shape))
    return value


def broadcast_object(obj=None, root_rank=0, name=None, process_set=global_process_set):
    """Gives everybody the root's object."""
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj, name=None, process_set=global_process_set):
    """The objects of all members, in their order."""
    return _objects.allgather_object(obj, name, process_set)
