"""As `ronde.torch.functions`: the very same module."""

import sys

from ronde.torch import functions

sys.modules[__name__] = functions
