from ronde.torch.mpi_ops import *
