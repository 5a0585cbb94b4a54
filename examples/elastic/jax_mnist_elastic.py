"""Handwritten digits with JAX: ranks come and go, the training goes on, and no sample is lost.

usage: horovodrun -np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh python jax_mnist_elastic.py

The digits are those that come with scikit-learn; nothing is downloaded.
"""

import argparse
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import ronde.jax as hvd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--commit-every", type=int, default=10)
parser.add_argument("--pause", type=float, default=0.0, help="seconds between steps, to have something to watch")
args = parser.parse_args()

hvd.init()
print(f"pid {os.getpid()}", flush=True)
images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32")
train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.2, random_state=0)


def predict(params, x):
    hidden = jax.nn.relu(x @ params["hidden"]["w"] + params["hidden"]["b"])
    return hidden @ params["output"]["w"] + params["output"]["b"]


def loss_of(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(predict(params, x), y).mean()


keys = jax.random.split(jax.random.PRNGKey(0))
params = {
    "hidden": {"w": jax.random.normal(keys[0], (64, 64)) * 0.1, "b": jnp.zeros(64)},
    "output": {"w": jax.random.normal(keys[1], (64, 10)) * 0.1, "b": jnp.zeros(10)},
}
# The learning rate is an argument of the step, not a part of the optimizer: it changes with the ring.
optimizer = hvd.DistributedOptimizer(optax.trace(decay=0.9))


@jax.jit
def training_step(params, optimizer_state, rate, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    updates, optimizer_state = optimizer.update(grads, optimizer_state, params)
    updates = jax.tree_util.tree_map(lambda update: -rate * update, updates)
    return optax.apply_updates(params, updates), optimizer_state, loss


@hvd.elastic.run
def train(state):
    while state.epoch < args.epochs:
        order = list(state.sampler)
        for begin in range(0, len(order), args.batch_size):
            chosen = np.array(order[begin : begin + args.batch_size])
            step = training_step(state.params, state.optimizer, 0.05 * hvd.size(), train_x[chosen], train_y[chosen])
            state.params, state.optimizer, loss = step
            state.sampler.record_batch(begin // args.batch_size, len(chosen))
            if state.step % 20 == 0 and hvd.rank() == 0:
                print(f"Step #{state.step}\tLoss: {loss:.6f}\t(ring of {hvd.size()})", flush=True)
            state.step += 1
            if state.step % args.commit_every == 0:
                state.commit()
            time.sleep(args.pause)
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()


sampler = hvd.elastic.ElasticSampler(train_x)
state = hvd.elastic.JaxState(params=params, optimizer=optimizer.init(params), sampler=sampler, epoch=0, step=0)
train(state)

if hvd.rank() == 0:
    predicted = np.asarray(predict(state.params, test_x)).argmax(axis=1)
    print(f"accuracy: {(predicted == test_y).mean():.4f}", flush=True)
