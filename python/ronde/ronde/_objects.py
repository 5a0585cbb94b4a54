"""Python objects between ranks: pickled, as bytes in two steps, length and content."""

import io

import numpy as np

from ronde import numpy as arrays
from ronde._basics import basics
from ronde.process_sets import global_process_set

try:
    import cloudpickle as pickling
except ImportError:
    # Enough for plain data; what scripts and notebooks define themselves needs the other.
    import pickle as pickling


def _dump(obj):
    with io.BytesIO() as stream:
        pickling.dump(obj, stream)
        return np.frombuffer(stream.getvalue(), dtype=np.uint8)


def broadcast_object(obj=None, root_rank=0, name=None, process_set=global_process_set):
    """Gives everybody the root's object."""
    # Not the type's, as in Horovod: only the root need have the object, and others would wait for another name.
    name = "broadcast_object" if name is None else name
    is_root = basics.rank() == root_rank
    data = _dump(obj) if is_root else None
    length = np.array([len(data) if is_root else 0], dtype=np.int64)
    length = arrays.broadcast(length, root_rank, f"{name}.sz", process_set)
    if not is_root:
        data = np.zeros(int(length[0]), dtype=np.uint8)
    data = arrays.broadcast(data, root_rank, f"{name}.t", process_set)
    return obj if is_root else pickling.loads(data.tobytes())


def allgather_object(obj, name=None, process_set=global_process_set):
    """The objects of all members, in their order."""
    name = "allgather_object" if name is None else name
    data = _dump(obj)
    lengths = arrays.allgather(np.array([len(data)], dtype=np.int64), f"{name}.sz", process_set)
    data = arrays.allgather(data, f"{name}.t", process_set)
    ends = np.cumsum(lengths)
    return [pickling.loads(data[end - length : end].tobytes()) for end, length in zip(ends, lengths)]


def broadcast_object_fn(root_rank=0, name=None, process_set=global_process_set):
    return lambda obj: broadcast_object(obj, root_rank, name, process_set)


__all__ = ["allgather_object", "broadcast_object", "broadcast_object_fn"]
