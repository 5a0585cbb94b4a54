"""`import horovod.keras as hvd`."""

from ronde.keras import *  # noqa: F403
from ronde.keras import __all__

from horovod.keras import callbacks, elastic  # isort: skip
