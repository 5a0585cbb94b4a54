from horovod.tensorflow import compression as compression
from horovod.tensorflow import functions as functions
from horovod.tensorflow import mpi_ops as mpi_ops
from horovod.tensorflow import util as util
from horovod.tensorflow import elastic as elastic
from ronde.tensorflow import *
