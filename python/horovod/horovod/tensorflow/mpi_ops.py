"""As `ronde.tensorflow.mpi_ops`: the very same module."""

import sys

from ronde.tensorflow import mpi_ops

sys.modules[__name__] = mpi_ops
