"""JAX's arrays as the engine takes them, for operations outside of computations: they are done at once, in place."""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

from ronde._basics import basics
from ronde._operations import Operations, run
from ronde._ronde import TYPE_CODES
from ronde.jax._primitive import empty


def _check_place(array):
    devices = array.devices()
    if len(devices) > 1:
        raise ValueError("the array is spread over several devices: Ronde needs it on one device of the CPU")
    platform = next(iter(devices)).platform
    if platform != "cpu":
        raise ValueError(
            f"the array is on {platform}, and Ronde works on the CPU: "
            'bring it there with jax.device_put(array, jax.devices("cpu")[0])'
        )


@functools.lru_cache(maxsize=4096)
def _maker(shape, dtype):
    """A compiled computation that makes memory: ten times as fast as any other way to get an array."""
    return jax.jit(functools.partial(empty, shape, dtype))


@functools.lru_cache(maxsize=None)
def _code(dtype):
    code = TYPE_CODES.get(dtype.name)
    if code is None:
        raise ValueError(f"Tensor type {dtype} is not supported.")
    return code


class Arrays:
    """What an array is to the engine."""

    @staticmethod
    def memory(array):
        return _code(array.dtype), array.shape, array.unsafe_buffer_pointer()

    @staticmethod
    def stage(array, is_in_place):
        if not isinstance(array, jax.Array):
            array = jnp.asarray(array)
        _check_place(array)
        return array.block_until_ready()

    @staticmethod
    def like(array, shape):
        if jax.default_backend() != "cpu":
            return jax.device_put(np.zeros(shape, array.dtype), array.sharding).block_until_ready()
        return _maker(tuple(shape), array.dtype)().block_until_ready()

    @staticmethod
    def deliver(result, _array, _is_in_place):
        return result

    @staticmethod
    def splits(received):
        return jnp.asarray(np.array(received, dtype=np.int32))

    @staticmethod
    def rows(splits):
        return [int(split) for split in splits]


waiting = Operations(Arrays, run)


# Steps that were dispatched end in this time, or will not end at all, because other ranks do something else.
_LAST_STEPS_SECONDS = 10.0


def _wait_for_computations():
    """Before this rank leaves: computations that nobody waits for may still need the ring, here and elsewhere."""
    deadline = time.monotonic() + _LAST_STEPS_SECONDS
    for array in jax.live_arrays():
        while not (array.is_deleted() or array.is_ready()) and time.monotonic() < deadline:
            time.sleep(0.001)


basics.before_shutdown(_wait_for_computations)
