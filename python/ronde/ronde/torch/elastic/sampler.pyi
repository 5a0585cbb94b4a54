from torch.utils.data import Sampler

from ronde._sampler import ShardedSampler

class ElasticSampler(ShardedSampler, Sampler[int]): ...
