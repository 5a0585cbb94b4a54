"""Collective operations on NumPy arrays."""

import numpy as np

from ronde import _ops
from ronde._ops import Adasum, Average, Max, Min, Product, Sum, barrier, join, poll, synchronize
from ronde.process_sets import global_process_set

_CODES = {
    "uint8": 0,
    "int8": 1,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bool": 9,
    "bfloat16": 10,
}


class _Arrays:
    """What an array is to the engine."""

    @staticmethod
    def place(array):
        code = _CODES.get(array.dtype.name)
        if code is None or not array.dtype.isnative:
            raise ValueError(f"Tensor type {array.dtype} is not supported.")
        return code, array.shape, array.__array_interface__["data"][0]

    @staticmethod
    def stage(array, is_in_place):
        if is_in_place:
            if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.flags.writeable:
                raise ValueError("an operation in place needs a contiguous array that can be written")
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


def _allreduce(tensors, average, name, op, prescale, postscale, process_set, is_in_place, is_group):
    op = _ops.reduce_op(op, average)
    return _ops.allreduce(_Arrays, tensors, name, op, prescale, postscale, process_set, is_in_place, is_group)


def allreduce(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    job = _allreduce([tensor], average, name, op, prescale_factor, postscale_factor, process_set, False, False)
    return _ops.run(_Arrays, job)


def allreduce_async(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    job = _allreduce([tensor], average, name, op, prescale_factor, postscale_factor, process_set, False, False)
    return _ops.start(_Arrays, job)


def allreduce_(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    job = _allreduce([tensor], average, name, op, prescale_factor, postscale_factor, process_set, True, False)
    return _ops.run(_Arrays, job)


def allreduce_async_(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    job = _allreduce([tensor], average, name, op, prescale_factor, postscale_factor, process_set, True, False)
    return _ops.start(_Arrays, job)


def grouped_allreduce(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    job = _allreduce(tensors, average, name, op, prescale_factor, postscale_factor, process_set, False, True)
    return _ops.run(_Arrays, job)


def allgather(tensor, name=None, process_set=global_process_set):
    return _ops.run(_Arrays, _ops.made(_Arrays, "allgather", None, [tensor], name, process_set, False))


def allgather_async(tensor, name=None, process_set=global_process_set):
    return _ops.start(_Arrays, _ops.made(_Arrays, "allgather", None, [tensor], name, process_set, False))


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    return _ops.run(_Arrays, _ops.broadcast(_Arrays, tensor, root_rank, name, process_set, False))


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    return _ops.run(_Arrays, _ops.broadcast(_Arrays, tensor, root_rank, name, process_set, True))


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Rows to each member; with splits also how many rows came from each."""
    details = None if splits is None else [int(split) for split in splits]
    result = _ops.run(_Arrays, _ops.made(_Arrays, "alltoall", details, [tensor], name, process_set, False))
    return result[0] if splits is None else result


def reducescatter(
    tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    details = (op, float(prescale_factor), float(postscale_factor))
    return _ops.run(_Arrays, _ops.made(_Arrays, "reducescatter", details, [tensor], name, process_set, False))


__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "grouped_allreduce",
    "join",
    "poll",
    "reducescatter",
    "synchronize",
]
