from collections.abc import Iterable
from typing import Any, Callable, Optional, TypeVar

from ronde.elastic import ObjectState
from ronde.tensorflow.sampler import ElasticSampler as ElasticSampler

_F = TypeVar("_F", bound=Callable[..., Any])

def run(func: _F) -> _F: ...
def run_fn(func: _F, reset: Callable[[], None]) -> _F: ...

class _VariablesState(ObjectState):
    def __init__(self, **kwargs: Any) -> None: ...

class TensorFlowKerasState(_VariablesState):
    model: Any
    optimizer: Any
    backend: Any
    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None: ...

class TensorFlowState(_VariablesState):
    variables: list[Any]
    session: Any
    def __init__(self, variables: Optional[Iterable[Any]] = None, session: Any = None, **kwargs: Any) -> None: ...

__all__ = ["ElasticSampler", "TensorFlowKerasState", "TensorFlowState", "run", "run_fn"]
