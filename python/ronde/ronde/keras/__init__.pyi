from os import PathLike
from typing import Any, Optional, Union

from ronde._basics import *
from ronde.keras._module import Adasum as Adasum
from ronde.keras._module import Average as Average
from ronde.keras._module import Compression as Compression
from ronde.keras._module import DistributedOptimizer as DistributedOptimizer
from ronde.keras._module import Max as Max
from ronde.keras._module import Min as Min
from ronde.keras._module import PartialDistributedOptimizer as PartialDistributedOptimizer
from ronde.keras._module import ProcessSet as ProcessSet
from ronde.keras._module import Product as Product
from ronde.keras._module import Sum as Sum
from ronde.keras._module import add_process_set as add_process_set
from ronde.keras._module import allgather as allgather
from ronde.keras._module import allreduce as allreduce
from ronde.keras._module import broadcast as broadcast
from ronde.keras._module import broadcast_global_variables as broadcast_global_variables
from ronde.keras._module import global_process_set as global_process_set
from ronde.keras._module import reducescatter as reducescatter
from ronde.keras._module import remove_process_set as remove_process_set
from ronde.keras import callbacks as callbacks
from ronde.keras import elastic as elastic
from ronde.tensorflow.compression import Compressor

def load_model(
    filepath: Union[str, PathLike[str]],
    custom_optimizers: Optional[list[type[Any]]] = None,
    custom_objects: Optional[dict[str, Any]] = None,
    compression: type[Compressor] = ...,
    legacy_opts: bool = False,
) -> Any: ...
