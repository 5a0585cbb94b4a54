from typing import Any

from ronde.tensorflow.elastic import TensorFlowKerasState

class KerasState(TensorFlowKerasState):
    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None: ...
