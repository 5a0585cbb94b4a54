"""Learns handwritten digits with MXNet and Horovod's API.

usage: horovodrun -np 2 python mxnet_mnist.py [--epochs N]

The digits are those that come with scikit-learn; nothing is downloaded.
"""

import argparse

import horovod.mxnet as hvd
import mxnet as mx
from mxnet import autograd, gluon
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()

hvd.init()
images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32").reshape(-1, 1, 8, 8)
train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.2, random_state=0)
# Horovod: each rank has its share of the data, and all have as many batches.
batches = len(train_x) // hvd.size() // args.batch_size
share = gluon.data.ArrayDataset(train_x[hvd.rank() :: hvd.size()], train_y[hvd.rank() :: hvd.size()].astype("float32"))
data = gluon.data.DataLoader(share, args.batch_size, shuffle=True)

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Conv2D(16, 3, activation="relu"), gluon.nn.Dense(64, activation="relu"), gluon.nn.Dense(10))
net.initialize(mx.init.Xavier())
net.hybridize()
# Horovod: everybody begins with the first rank's parameters, also those whose shape the first batch shows.
hvd.broadcast_parameters(net.collect_params(), root_rank=0)
# Horovod: the gradients are everybody's, and the learning rate grows with the number of ranks.
trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.05 * hvd.size(), "momentum": 0.9})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

for epoch in range(args.epochs):
    for _, (x, y) in zip(range(batches), data):
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(args.batch_size)
    mean = hvd.allreduce(loss.mean(), name="loss")
    if hvd.rank() == 0:
        print(f"epoch {epoch}: loss {mean.asscalar():.3f}", flush=True)

if hvd.rank() == 0:
    right = (net(mx.nd.array(test_x)).argmax(axis=1).asnumpy() == test_y).mean()
    print(f"accuracy: {right:.3f}", flush=True)
