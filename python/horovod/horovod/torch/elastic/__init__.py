"""As `ronde.torch.elastic`."""

from horovod.torch.elastic import sampler, state
from ronde.torch.elastic import ElasticSampler, TorchState, run

__all__ = ["ElasticSampler", "TorchState", "run", "sampler", "state"]
