"""As `ronde.torch.mpi_ops`: the very same module."""

import sys

from ronde.torch import mpi_ops

sys.modules[__name__] = mpi_ops
