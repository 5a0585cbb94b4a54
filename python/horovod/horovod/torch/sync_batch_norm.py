"""As `ronde.torch.sync_batch_norm`: the very same module."""

import sys

from ronde.torch import sync_batch_norm

sys.modules[__name__] = sync_batch_norm
