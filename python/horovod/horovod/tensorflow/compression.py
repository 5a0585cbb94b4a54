"""As `ronde.tensorflow.compression`: the very same module."""

import sys

from ronde.tensorflow import compression

sys.modules[__name__] = compression
