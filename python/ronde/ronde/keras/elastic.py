"""Elastic training with `keras`."""

import keras as _keras

from ronde.keras._backend import run
from ronde.keras._callbacks import build_elastic as _build
from ronde.keras._elastic import KerasState

_callbacks = _build(_keras.callbacks.Callback)
CommitStateCallback = _callbacks.CommitStateCallback
UpdateBatchStateCallback = _callbacks.UpdateBatchStateCallback
UpdateEpochStateCallback = _callbacks.UpdateEpochStateCallback

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]
