"""As `ronde.tensorflow.functions`: the very same module."""

import sys

from ronde.tensorflow import functions

sys.modules[__name__] = functions
