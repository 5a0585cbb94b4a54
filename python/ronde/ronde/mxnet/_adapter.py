"""What an array of MXNet is to the engine.

MXNet computes in threads of its own, and says through its C interface when an array is ready and where its memory is:
the engine works there, without a copy.
"""

import ctypes

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call

from ronde._ronde import TYPE_CODES


def memory(array):
    name = np.dtype(array.dtype).name
    code = TYPE_CODES.get(name)
    if code is None:
        raise ValueError(f"Tensor type {name} is not supported.")
    address = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(address)))
    return code, array.shape, address.value or 0


def stage(array, is_in_place):
    """The array itself once nothing that writes it is left to do, else a copy in the machine's memory."""
    if not isinstance(array, mx.nd.NDArray):
        raise TypeError(f"horovod.mxnet works on mx.nd.NDArray, not {type(array).__module__}.{type(array).__qualname__}")
    if array.stype != "default":
        raise ValueError(f"arrays of the storage type {array.stype} are not supported; use tostype('default')")
    source = array.as_in_context(mx.cpu())
    wait = _LIB.MXNDArrayWaitToWrite if is_in_place else _LIB.MXNDArrayWaitToRead
    check_call(wait(source.handle))
    return source


def like(array, shape):
    kind = mx.np if isinstance(array, mx.np.ndarray) else mx.nd
    return kind.empty(shape, dtype=array.dtype)


def deliver(result, array, is_in_place):
    """The result on the caller's device; the caller's own array if the operation was in place."""
    if not is_in_place:
        return result.as_in_context(array.context)
    if result is not array:
        result.copyto(array)
    return array


def splits(received):
    return mx.nd.array(received, dtype="int32")


def rows(splits):
    """Splits as numbers."""
    if isinstance(splits, mx.nd.NDArray):
        if np.dtype(splits.dtype) != np.int32:
            raise ValueError("alltoall expects splits with 32-bit integer elements")
        splits = splits.asnumpy().tolist()
    if any(split < 0 for split in splits):
        raise ValueError(f"alltoall expects non-negative splits, not {splits}")
    return [int(split) for split in splits]
