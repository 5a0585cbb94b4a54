"""Callbacks for `fit` of `tf.keras`."""

from tensorflow import keras as _keras

from ronde.keras._callbacks import build as _build

_callbacks = _build(_keras.callbacks.Callback, _keras.callbacks.ModelCheckpoint)
BestModelCheckpoint = _callbacks.BestModelCheckpoint
BroadcastGlobalVariablesCallback = _callbacks.BroadcastGlobalVariablesCallback
LearningRateScheduleCallback = _callbacks.LearningRateScheduleCallback
LearningRateWarmupCallback = _callbacks.LearningRateWarmupCallback
MetricAverageCallback = _callbacks.MetricAverageCallback
ReportCallback = _callbacks.ReportCallback

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
    "ReportCallback",
]
