from typing import Any, Optional, TypeVar, Union

import numpy as np

from ronde._basics import *
from ronde.process_sets import ProcessSet as ProcessSet
from ronde.process_sets import add_process_set as add_process_set
from ronde.process_sets import global_process_set as global_process_set
from ronde.process_sets import remove_process_set as remove_process_set
from ronde.tensorflow.compression import Compression as Compression
from ronde.tensorflow.compression import Compressor as Compressor
from ronde.tensorflow.functions import broadcast_global_variables as broadcast_global_variables
from ronde.tensorflow.mpi_ops import Adasum as Adasum
from ronde.tensorflow.mpi_ops import Average as Average
from ronde.tensorflow.mpi_ops import Max as Max
from ronde.tensorflow.mpi_ops import Min as Min
from ronde.tensorflow.mpi_ops import Product as Product
from ronde.tensorflow.mpi_ops import Sum as Sum

_Optimizer = TypeVar("_Optimizer")

def DistributedOptimizer(
    optimizer: _Optimizer,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = ...,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = ...,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Union[None, int, list[list[Any]]] = None,
    process_set: ProcessSet = ...,
    scale_local_gradients: bool = True,
) -> _Optimizer: ...
def PartialDistributedOptimizer(
    optimizer: _Optimizer, *args: Any, local_layers: Any = None, **kwargs: Any
) -> _Optimizer: ...
def allreduce(
    value: Any,
    name: Optional[str] = None,
    average: Optional[bool] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: Optional[int] = None,
    compression: type[Compressor] = ...,
) -> Any: ...
def allgather(value: Any, name: Optional[str] = None) -> "np.ndarray[Any, Any]": ...
def broadcast(value: Any, root_rank: int, name: Optional[str] = None) -> "np.ndarray[Any, Any]": ...
def reducescatter(value: Any, name: Optional[str] = None, op: int = ...) -> "np.ndarray[Any, Any]": ...
