"""As `ronde.tensorflow.elastic`: the very same module."""

import sys

from ronde.tensorflow import elastic

sys.modules[__name__] = elastic
