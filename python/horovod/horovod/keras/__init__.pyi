from horovod.keras import callbacks as callbacks
from horovod.keras import elastic as elastic
from ronde.keras import *
