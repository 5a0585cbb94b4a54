"""Collective operations and distributed training for TensorFlow: Horovod's `horovod.tensorflow`."""

from ronde._frameworks import require as _require

_require("tensorflow")

from ronde._basics import __all__ as _names
from ronde.exceptions import HorovodInternalError
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ronde.tensorflow import elastic, mpi_ops, util
from ronde.tensorflow.compression import Compression
from ronde.tensorflow.functions import (
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from ronde.tensorflow.gradients import _make_allreduce_grads_fn
from ronde.tensorflow.mpi_ops import _check_has_gpu
from ronde.tensorflow.operations import allreduce, grouped_allreduce, grouped_reducescatter, reducescatter
from ronde.tensorflow.optimizer import DistributedOptimizer
from ronde.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from ronde.tensorflow.util import _executing_eagerly

for _name in [*_names, *mpi_ops.OPERATIONS]:
    globals()[_name] = getattr(mpi_ops, _name)


def __getattr__(name):
    # Layers bring Keras along, which takes seconds to import; scripts without it need not wait.
    if name == "SyncBatchNormalization":
        from ronde.tensorflow.sync_batch_norm import SyncBatchNormalization

        return SyncBatchNormalization
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    *_names,
    *mpi_ops.OPERATIONS,
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "add_process_set",
    "allgather_object",
    "allreduce",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "elastic",
    "global_process_set",
    "grouped_allreduce",
    "grouped_reducescatter",
    "mpi_ops",
    "reducescatter",
    "remove_process_set",
    "util",
]
