from ronde.mxnet.mpi_ops import *
