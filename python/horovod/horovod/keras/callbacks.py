"""As `ronde.keras.callbacks`: the very same module."""

import sys

from ronde.keras import callbacks

sys.modules[__name__] = callbacks
