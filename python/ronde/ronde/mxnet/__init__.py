"""Collective operations and distributed training for MXNet: Horovod's `horovod.mxnet`."""

from ronde._frameworks import require as _require

try:
    _require("mxnet")
except AttributeError as _error:
    # It uses names that NumPy had before 1.24.
    raise ImportError(f"MXNet does not work with this NumPy ({_error}): pip install numpy==1.23.5") from None

from ronde._basics import __all__ as _names
from ronde.exceptions import HorovodInternalError
from ronde.mxnet import mpi_ops
from ronde.mxnet.compression import Compression
from ronde.mxnet.functions import allgather_object, broadcast_object, broadcast_parameters
from ronde.mxnet.mpi_ops import OPERATIONS as _operations
from ronde.mxnet.mpi_ops import *  # noqa: F403
from ronde.mxnet.optimizer import DistributedOptimizer, DistributedTrainer
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

__all__ = [
    *_names,
    *_operations,
    "Compression",
    "DistributedOptimizer",
    "DistributedTrainer",
    "HorovodInternalError",
    "ProcessSet",
    "add_process_set",
    "allgather_object",
    "broadcast_object",
    "broadcast_parameters",
    "global_process_set",
    "mpi_ops",
    "remove_process_set",
]
