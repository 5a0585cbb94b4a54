"""As `ronde.tensorflow.keras.callbacks`: the very same module."""

import sys

from ronde.tensorflow.keras import callbacks

sys.modules[__name__] = callbacks
