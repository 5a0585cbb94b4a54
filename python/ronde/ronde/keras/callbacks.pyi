from collections.abc import Iterable
from typing import Any, Callable, Optional, Union

import keras

class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    root_rank: int
    broadcast_done: bool
    def __init__(self, root_rank: int, device: str = "", local_variables: Optional[Iterable[Any]] = None) -> None: ...
    def register_local_var(self, var: Any) -> None: ...
    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, Any]] = None) -> None: ...

class MetricAverageCallback(keras.callbacks.Callback):
    def __init__(self, device: str = "") -> None: ...
    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None: ...

class ReportCallback(keras.callbacks.Callback):
    batch_size: int
    step: int
    def __init__(self, batch_size: int = 0) -> None: ...
    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, Any]] = None) -> None: ...

class LearningRateScheduleCallback(keras.callbacks.Callback):
    def __init__(
        self,
        initial_lr: float,
        multiplier: Union[float, Callable[[float], float]],
        start_epoch: int = 0,
        end_epoch: Optional[int] = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
    ) -> None: ...
    def on_train_begin(self, logs: Optional[dict[str, Any]] = None) -> None: ...
    def on_train_batch_begin(self, batch: int, logs: Optional[dict[str, Any]] = None) -> None: ...
    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, Any]] = None) -> None: ...
    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None: ...
    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None: ...

class LearningRateWarmupCallback(LearningRateScheduleCallback):
    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
        verbose: int = 0,
    ) -> None: ...

class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Union[str, int] = "epoch",
    ) -> None: ...

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
    "ReportCallback",
]
