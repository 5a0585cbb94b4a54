"""As `ronde.tensorflow.keras.elastic`: the very same module."""

import sys

from ronde.tensorflow.keras import elastic

sys.modules[__name__] = elastic
