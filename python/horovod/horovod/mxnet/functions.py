"""As `ronde.mxnet.functions`: the very same module."""

import sys

from ronde.mxnet import functions

sys.modules[__name__] = functions
