from horovod.tensorflow.keras import callbacks as callbacks
from horovod.tensorflow.keras import elastic as elastic
from ronde.tensorflow.keras import *
