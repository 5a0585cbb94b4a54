"""`import horovod.tensorflow.keras as hvd`."""

from ronde.tensorflow.keras import *  # noqa: F403
from ronde.tensorflow.keras import __all__

from horovod.tensorflow.keras import callbacks, elastic  # isort: skip
