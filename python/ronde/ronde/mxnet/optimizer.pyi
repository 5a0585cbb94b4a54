from typing import Any, Optional, Union

import mxnet as mx

from ronde.mxnet.compression import Compressor
from ronde.process_sets import ProcessSet

class DistributedOptimizer(mx.optimizer.Optimizer):
    def __init__(
        self,
        optimizer: mx.optimizer.Optimizer,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        process_set: ProcessSet = ...,
    ) -> None: ...
    def __getattr__(self, item: str) -> Any: ...
    def create_state(self, index: Any, weight: Any) -> Any: ...
    def create_state_multi_precision(self, index: Any, weight: Any) -> Any: ...
    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None: ...
    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None: ...
    def set_learning_rate(self, lr: float) -> None: ...
    def set_lr_mult(self, args_lr_mult: dict[Any, float]) -> None: ...
    def set_wd_mult(self, args_wd_mult: dict[Any, float]) -> None: ...

class DistributedTrainer(mx.gluon.Trainer):
    def __init__(
        self,
        params: Any,
        optimizer: Union[str, mx.optimizer.Optimizer],
        optimizer_params: Optional[dict[str, Any]] = None,
        compression: type[Compressor] = ...,
        gradient_predivide_factor: float = 1.0,
        prefix: Optional[str] = None,
        num_groups: int = 0,
        process_set: ProcessSet = ...,
    ) -> None: ...
