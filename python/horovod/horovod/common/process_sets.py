"""As `ronde.process_sets`: the very same module."""

import sys

from ronde import process_sets

sys.modules[__name__] = process_sets
