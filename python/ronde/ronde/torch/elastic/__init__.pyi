from ronde.elastic import run as run
from ronde.elastic import run_fn as run_fn
from ronde.torch.elastic.sampler import ElasticSampler as ElasticSampler
from ronde.torch.elastic.state import TorchState as TorchState

__all__ = ["ElasticSampler", "TorchState", "run", "run_fn"]
