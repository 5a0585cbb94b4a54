from horovod.torch import compression as compression
from horovod.torch import elastic as elastic
from horovod.torch import functions as functions
from horovod.torch import mpi_ops as mpi_ops
from horovod.torch import optimizer as optimizer
from horovod.torch import sync_batch_norm as sync_batch_norm
from ronde.torch import *
