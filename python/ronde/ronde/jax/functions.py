"""Parameters and objects from one rank to all."""

import jax
import jax.numpy as jnp
import numpy as np

from ronde import _objects
from ronde import numpy as arrays
from ronde._operations import synchronize
from ronde._ronde import TYPE_CODES
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
            handles[number] = arrays.broadcast_async(_sent(leaf), root_rank, f"{name}.{number}", process_set)
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
    """A leaf as it travels: an array of NumPy, of bytes if its type is none that can be reduced."""
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    return array if array.dtype.name in TYPE_CODES else array.reshape(-1).view(np.uint8)


def _received(value, leaf):
    """What came of it, as the leaf was."""
    if _is_key(leaf):
        data = _received(value, jax.random.key_data(leaf))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    value = value if leaf.dtype.name in TYPE_CODES else value.view(leaf.dtype).reshape(leaf.shape)
    return jnp.asarray(value) if isinstance(leaf, jax.Array) else value


def broadcast_object(obj=None, root_rank=0, name=None, process_set=global_process_set):
    """Gives everybody the root's object."""
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj, name=None, process_set=global_process_set):
    """The objects of all members, in their order."""
    return _objects.allgather_object(obj, name, process_set)
