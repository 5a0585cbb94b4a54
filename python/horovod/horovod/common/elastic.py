"""As `ronde.elastic`: the very same module."""

import sys

from ronde import elastic

sys.modules[__name__] = elastic
