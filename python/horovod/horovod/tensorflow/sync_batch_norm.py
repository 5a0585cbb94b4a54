"""As `ronde.tensorflow.sync_batch_norm`: the very same module."""

import sys

from ronde.tensorflow import sync_batch_norm

sys.modules[__name__] = sync_batch_norm
