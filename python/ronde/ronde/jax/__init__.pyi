from ronde._basics import *
from ronde.exceptions import HorovodInternalError as HorovodInternalError
from ronde.exceptions import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from ronde.exceptions import MismatchError as MismatchError
from ronde.jax import elastic as elastic
from ronde.jax.compression import Compression as Compression
from ronde.jax.functions import allgather_object as allgather_object
from ronde.jax.functions import broadcast_object as broadcast_object
from ronde.jax.functions import broadcast_parameters as broadcast_parameters
from ronde.jax.operations import allgather as allgather
from ronde.jax.operations import allreduce as allreduce
from ronde.jax.operations import alltoall as alltoall
from ronde.jax.operations import broadcast as broadcast
from ronde.jax.operations import grouped_allgather as grouped_allgather
from ronde.jax.operations import grouped_allreduce as grouped_allreduce
from ronde.jax.operations import grouped_reducescatter as grouped_reducescatter
from ronde.jax.operations import pmean as pmean
from ronde.jax.operations import psum as psum
from ronde.jax.operations import reducescatter as reducescatter
from ronde.jax.optimizer import DistributedOptimizer as DistributedOptimizer
from ronde.process_sets import ProcessSet as ProcessSet
from ronde.process_sets import add_process_set as add_process_set
from ronde.process_sets import global_process_set as global_process_set
from ronde.process_sets import remove_process_set as remove_process_set

Average: int
Sum: int
Adasum: int
Min: int
Max: int
Product: int

def barrier(process_set: ProcessSet = ...) -> None: ...
def join() -> int: ...
