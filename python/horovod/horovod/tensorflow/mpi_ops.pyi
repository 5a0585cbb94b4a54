from ronde.tensorflow.mpi_ops import *
