"""As `ronde.torch.optimizer`: the very same module."""

import sys

from ronde.torch import optimizer

sys.modules[__name__] = optimizer
