"""Collective operations on NumPy arrays."""

import ctypes

import numpy as np

from ronde._basics import *  # noqa: F403
from ronde._basics import __all__ as _names
from ronde._operations import (
    Adasum,
    Average,
    Max,
    Min,
    Operations,
    Product,
    Sum,
    barrier,
    join,
    poll,
    run,
    start,
    synchronize,
)
from ronde._ronde import TYPE_CODES
from ronde.exceptions import HorovodInternalError
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

# Types that were met: the name of one takes longer to find out than a small operation.
_by_dtype: dict = {}


def _code(dtype):
    code = TYPE_CODES.get(dtype.name)
    if code is None or not dtype.isnative:
        raise ValueError(f"Tensor type {dtype} is not supported.")
    _by_dtype[dtype] = code
    return code


# A buffer gives the address in a tenth of the time that `__array_interface__` takes, which makes texts and a dictionary.
_borrow = (ctypes.c_char * 0).from_buffer


def _address(array):
    try:
        return ctypes.addressof(_borrow(array))
    except (BufferError, TypeError, ValueError):
        # It cannot be written, or its type is unknown to buffers.
        return array.__array_interface__["data"][0]


class _Arrays:
    """What an array is to the engine."""

    @staticmethod
    def memory(array):
        code = _by_dtype.get(array.dtype)
        if code is None:
            code = _code(array.dtype)
        return code, array.shape, _address(array)

    @staticmethod
    def stage(array, is_in_place):
        if is_in_place:
            if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.flags.writeable:
                raise ValueError("an in-place operation needs a contiguous, writable array")
            return array
        array = np.asarray(array)
        return array if array.flags.c_contiguous else array.copy(order="C")

    @staticmethod
    def like(array, shape):
        return np.empty(shape, dtype=array.dtype)

    @staticmethod
    def deliver(result, _array, _is_in_place):
        return result

    @staticmethod
    def splits(received):
        return np.array(received, dtype=np.int32)

    @staticmethod
    def rows(splits):
        return [int(split) for split in splits]


_waiting = Operations(_Arrays, run)
_starting = Operations(_Arrays, start)

allgather, allgather_async = _waiting.allgather, _starting.allgather
allreduce, allreduce_async = _waiting.allreduce, _starting.allreduce
allreduce_, allreduce_async_ = _waiting.allreduce_, _starting.allreduce_
alltoall_async = _starting.alltoall
broadcast, broadcast_async = _waiting.broadcast, _starting.broadcast
broadcast_, broadcast_async_ = _waiting.broadcast_, _starting.broadcast_
grouped_allgather, grouped_allgather_async = _waiting.grouped_allgather, _starting.grouped_allgather
grouped_allreduce, grouped_allreduce_async = _waiting.grouped_allreduce, _starting.grouped_allreduce
grouped_allreduce_, grouped_allreduce_async_ = _waiting.grouped_allreduce_, _starting.grouped_allreduce_
grouped_reducescatter, grouped_reducescatter_async = _waiting.grouped_reducescatter, _starting.grouped_reducescatter
reducescatter, reducescatter_async = _waiting.reducescatter, _starting.reducescatter


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Rows to each member; with splits also how many rows came from each."""
    result = _waiting.alltoall(tensor, splits, name, process_set)
    return result[0] if splits is None else result


__all__ = [
    *_names,
    "Adasum",
    "Average",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "global_process_set",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "synchronize",
]
