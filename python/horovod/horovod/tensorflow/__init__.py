"""`import horovod.tensorflow as hvd`."""

from ronde.tensorflow import *  # noqa: F403
from ronde.tensorflow import __all__ as _names
from ronde.tensorflow import __getattr__ as __getattr__
from ronde.tensorflow import _check_has_gpu, _executing_eagerly, _make_allreduce_grads_fn

from horovod.tensorflow import compression, elastic, functions, mpi_ops, util  # isort: skip

__all__ = [*_names, "compression", "functions", "_check_has_gpu", "_executing_eagerly", "_make_allreduce_grads_fn"]
