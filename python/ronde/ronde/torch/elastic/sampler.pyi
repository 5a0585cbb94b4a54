from torch.utils.data import Sampler

from ronde import _sampler

class ElasticSampler(_sampler.ElasticSampler, Sampler[int]): ...
