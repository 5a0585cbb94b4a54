import tensorflow as tf

from ronde._sampler import ShardedSampler

class ElasticSampler(ShardedSampler):
    def indices(self) -> tf.data.Dataset: ...
