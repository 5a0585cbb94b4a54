"""As `ronde.tensorflow.util`: the very same module."""

import sys

from ronde.tensorflow import util

sys.modules[__name__] = util
