"""A program as users of TensorFlow, Keras and MXNet write it; type checkers read it, nobody runs it."""

from typing import Any

import horovod.keras as keras_hvd
import horovod.mxnet as mxd
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvk
import mxnet as mx
import tensorflow as tf
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader
from horovod.tensorflow.mpi_ops import rank_op

hvd.init()
rank: int = hvd.rank() + mxd.local_rank() + hvk.size() + keras_hvd.cross_size()
mean = hvd.allreduce(tf.ones([1]), op=hvd.Sum, compression=hvd.Compression.bf16)
sums: list[Any] = hvd.grouped_allreduce([mean, mean])
rows, splits = hvd.alltoall(mean, splits=[1])
hvd.broadcast_variables([tf.Variable(1.0)], root_rank=0)
tape = hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Average)
tape.register_local_source(mean)
number = rank_op()

optimizer = hvk.DistributedOptimizer(tf.keras.optimizers.SGD(0.1), backward_passes_per_step=2)
callbacks = [
    hvk.callbacks.BroadcastGlobalVariablesCallback(0),
    hvk.callbacks.LearningRateWarmupCallback(initial_lr=0.1, verbose=1),
    keras_hvd.callbacks.BestModelCheckpoint(),
]
sampler = hvd.elastic.ElasticSampler(range(10), shuffle=False)
sampler.record_batch(0, 4)
state = hvd.elastic.TensorFlowKerasState(tf.keras.Sequential(), optimizer, sampler=sampler, batch=0)


@hvd.elastic.run
def train(state: hvd.elastic.TensorFlowKerasState) -> int:
    state.batch += 1
    state.commit()
    return 1


total = mxd.allreduce(mx.nd.ones(1), name="total")
trainer = mxd.DistributedTrainer({}, "sgd", {"learning_rate": 0.1}, compression=mxd.Compression.fp16)
mxd.broadcast_parameters({}, root_rank=0)


class Loader(AsyncDataLoaderMixin, BaseDataLoader):
    def __len__(self) -> int:
        return 1


for batch in Loader(async_loader_queue_size=2):
    print(batch)
