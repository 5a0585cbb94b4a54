from typing import Any, Callable, TypeVar

from ronde._sampler import ShardedSampler
from ronde.elastic import State

_T = TypeVar("_T")

class ElasticSampler(ShardedSampler): ...

class JaxState(State):
    def __init__(self, **kwargs: Any) -> None: ...

def run(func: Callable[..., _T]) -> Callable[..., _T]: ...
def run_fn(func: Callable[..., _T], reset: Callable[[], None]) -> Callable[..., _T]: ...

__all__ = ["ElasticSampler", "JaxState", "run", "run_fn"]
