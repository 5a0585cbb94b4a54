"""As `ronde.exceptions`: the very same module."""

import sys

from ronde import exceptions

sys.modules[__name__] = exceptions
