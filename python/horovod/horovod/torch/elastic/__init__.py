"""As `ronde.torch.elastic`."""

from horovod.torch.elastic import sampler, state
from ronde.torch.elastic import ElasticSampler, TorchState, run, run_fn

__all__ = ["ElasticSampler", "TorchState", "run", "run_fn", "sampler", "state"]
