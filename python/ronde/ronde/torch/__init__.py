"""Collective operations and distributed training for PyTorch: Horovod's `horovod.torch`."""

from ronde._frameworks import require as _require

_torch = _require("torch")

from ronde._basics import __all__ as _names
from ronde.exceptions import HorovodInternalError
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ronde.torch import elastic, mpi_ops
from ronde.torch.compression import Compression
from ronde.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from ronde.torch.optimizer import DistributedOptimizer
from ronde.torch.sync_batch_norm import SyncBatchNorm

for _name in [*_names, *mpi_ops.OPERATIONS]:
    globals()[_name] = getattr(mpi_ops, _name)


def _check_has_gpu():
    return _torch.cuda.is_available()


__all__ = [
    *_names,
    *mpi_ops.OPERATIONS,
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "ProcessSet",
    "SyncBatchNorm",
    "add_process_set",
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "elastic",
    "global_process_set",
    "mpi_ops",
    "remove_process_set",
]
