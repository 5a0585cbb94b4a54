"""Elastic training with PyTorch."""

from ronde.elastic import run, run_fn
from ronde.torch.elastic.sampler import ElasticSampler
from ronde.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run", "run_fn"]
