"""As `ronde.torch.compression`: the very same module."""

import sys

from ronde.torch import compression

sys.modules[__name__] = compression
