"""As `ronde.mxnet.mpi_ops`: the very same module."""

import sys

from ronde.mxnet import mpi_ops

sys.modules[__name__] = mpi_ops
