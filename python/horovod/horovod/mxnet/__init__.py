"""`import horovod.mxnet as hvd`."""

from ronde.mxnet import *  # noqa: F403
from ronde.mxnet import __all__

from horovod.mxnet import compression, functions, mpi_ops  # isort: skip
