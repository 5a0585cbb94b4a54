"""As `ronde.torch.elastic.sampler`: the very same module."""

import sys

from ronde.torch.elastic import sampler

sys.modules[__name__] = sampler
