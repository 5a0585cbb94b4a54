"""Distributed training with Keras: Horovod's `horovod.keras`."""

try:
    import keras as _keras
except ImportError as error:
    raise ImportError("horovod.keras needs Keras, which is not installed here: pip install keras tensorflow") from error

from ronde._basics import __all__ as _names
from ronde.keras import _module, callbacks, elastic
from ronde.keras._module import allgather, allreduce, broadcast, reducescatter
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ronde.tensorflow import mpi_ops as _mpi_ops
from ronde.tensorflow.compression import Compression
from ronde.tensorflow.functions import broadcast_global_variables
from ronde.tensorflow.mpi_ops import Adasum, Average, Max, Min, Product, Sum

for _name in _names:
    globals()[_name] = getattr(_mpi_ops, _name)


def DistributedOptimizer(
    optimizer,
    name=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    gradient_predivide_factor=1.0,
    op=Average,
    num_groups=0,
    groups=None,
    process_set=global_process_set,
):
    """The optimizer, with gradients that are reduced over all ranks before they are applied."""
    options = {key: value for key, value in locals().items() if key not in ("optimizer", "name")}
    return _module.distributed_optimizer(optimizer, name, options)


def PartialDistributedOptimizer(
    optimizer,
    name=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    gradient_predivide_factor=1.0,
    op=Average,
    num_groups=0,
    groups=None,
    process_set=global_process_set,
    local_layers=None,
    scale_local_gradients=True,
):
    """The same, but for the variables of some layers, which are this rank's own."""
    options = {key: value for key, value in locals().items() if key not in ("optimizer", "name", "local_layers")}
    return _module.distributed_optimizer(optimizer, name, options, local_layers=local_layers)


def load_model(filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, legacy_opts=False):
    """A model that was saved with its optimizer, which is distributed from now on."""
    return _module.load_model(_keras, filepath, custom_optimizers, custom_objects, compression)


__all__ = [
    *_names,
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "elastic",
    "global_process_set",
    "load_model",
    "reducescatter",
    "remove_process_set",
]
