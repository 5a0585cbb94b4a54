"""A sampler that knows which samples of an epoch are done, whoever did them."""

from torch.utils.data import Sampler

from ronde._sampler import ShardedSampler


class ElasticSampler(ShardedSampler, Sampler):
    """Cuts what is left of an epoch among the ranks that are there."""
