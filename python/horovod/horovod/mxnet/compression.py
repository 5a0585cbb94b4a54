"""As `ronde.mxnet.compression`: the very same module."""

import sys

from ronde.mxnet import compression

sys.modules[__name__] = compression
