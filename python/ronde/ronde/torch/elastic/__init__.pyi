from typing import Callable, TypeVar

from ronde.torch.elastic.distributed import DistributedState as DistributedState
from ronde.torch.elastic.sampler import ElasticSampler as ElasticSampler
from ronde.torch.elastic.state import TorchState as TorchState

_T = TypeVar("_T")

def run_fn(func: Callable[..., _T], reset: Callable[[], None]) -> Callable[..., _T]: ...
def run(func: Callable[..., _T]) -> Callable[..., _T]: ...

__all__ = ["ElasticSampler", "TorchState", "run", "run_fn"]
