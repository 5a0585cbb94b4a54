from typing import Any, Optional, TypeVar, Union

from ronde.process_sets import ProcessSet
from ronde.tensorflow.compression import Compressor

_Optimizer = TypeVar("_Optimizer")

def DistributedOptimizer(
    optimizer: _Optimizer,
    name: Optional[str] = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = ...,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = ...,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Union[None, int, list[list[Any]]] = None,
    process_set: ProcessSet = ...,
    scale_local_gradients: bool = True,
) -> _Optimizer: ...
