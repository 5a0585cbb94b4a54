"""`import horovod.torch as hvd`."""

from horovod.torch import compression, elastic, functions, mpi_ops, optimizer, sync_batch_norm
from ronde.torch import *  # noqa: F403
from ronde.torch import __all__ as _names
from ronde.torch import _check_has_gpu

__all__ = [*_names, "compression", "functions", "optimizer", "sync_batch_norm", "_check_has_gpu"]
