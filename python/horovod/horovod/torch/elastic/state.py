"""As `ronde.torch.elastic.state`: the very same module."""

import sys

from ronde.torch.elastic import state

sys.modules[__name__] = state
