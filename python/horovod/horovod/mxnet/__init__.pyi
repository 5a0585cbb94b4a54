from horovod.mxnet import compression as compression
from horovod.mxnet import functions as functions
from horovod.mxnet import mpi_ops as mpi_ops
from ronde.mxnet import *
