"""The sampler of an elastic training, as data loaders of PyTorch take it."""

from torch.utils.data import Sampler

from ronde import _sampler


class ElasticSampler(_sampler.ElasticSampler, Sampler):
    """Cuts what is left of an epoch among the ranks that are there."""
