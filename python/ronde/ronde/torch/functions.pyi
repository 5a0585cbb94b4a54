from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from torch import Tensor, nn
from torch.optim import Optimizer

from ronde._objects import allgather_object as allgather_object
from ronde._objects import broadcast_object as broadcast_object
from ronde.process_sets import ProcessSet

def broadcast_parameters(
    params: Union[Mapping[str, Any], Iterable[Tensor], Iterable[tuple[str, Any]]],
    root_rank: int,
    process_set: ProcessSet = ...,
) -> None: ...
def broadcast_optimizer_state(optimizer: Optimizer, root_rank: int, model: Optional[nn.Module] = None) -> None: ...
def take_optimizer_state(optimizer: Optimizer, root_rank: int) -> None: ...

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]
