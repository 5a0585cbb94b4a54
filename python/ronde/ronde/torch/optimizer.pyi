from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Optional, Union

from torch import Tensor
from torch.optim import Optimizer

from ronde.process_sets import ProcessSet
from ronde.torch.compression import Compressor

class _DistributedOptimizer(Optimizer):
    """What the optimizer that was given has beside its own methods; its class is made when it is wrapped."""

    backward_passes_per_step: int
    process_set: ProcessSet
    def synchronize(self) -> None: ...
    def skip_synchronize(self) -> AbstractContextManager[None]: ...
    def set_backward_passes_per_step(self, passes: int) -> None: ...
    def step(self, closure: Any = None) -> Any: ...
    def zero_grad(self, *args: Any, **kwargs: Any) -> None: ...

def DistributedOptimizer(
    optimizer: Optimizer,
    named_parameters: Optional[Iterable[tuple[str, Tensor]]] = None,
    compression: type[Compressor] = ...,
    backward_passes_per_step: int = 1,
    op: int = ...,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Union[None, int, list[list[Tensor]]] = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = ...,
) -> _DistributedOptimizer: ...
