"""Handwritten digits with JAX and Optax: the whole step is one compiled computation, gradients are reduced inside.

usage: horovodrun -np 2 python jax_mnist.py [--epochs N]

The digits are those that come with scikit-learn; nothing is downloaded.
"""

import argparse

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
args = parser.parse_args()

hvd.init()
images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32")
train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.2, random_state=0)
train_x, train_y = train_x[hvd.rank() :: hvd.size()], train_y[hvd.rank() :: hvd.size()]


def initial_params(key):
    keys = jax.random.split(key)
    return {
        "hidden": {"w": jax.random.normal(keys[0], (64, 64)) * 0.1, "b": jnp.zeros(64)},
        "output": {"w": jax.random.normal(keys[1], (64, 10)) * 0.1, "b": jnp.zeros(10)},
    }


def predict(params, x):
    hidden = jax.nn.relu(x @ params["hidden"]["w"] + params["hidden"]["b"])
    return hidden @ params["output"]["w"] + params["output"]["b"]


def loss_of(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(predict(params, x), y).mean()


# Everybody begins with the first rank's parameters; the learning rate grows with the number of ranks.
params = hvd.broadcast_parameters(initial_params(jax.random.PRNGKey(hvd.rank())), root_rank=0)
optimizer = hvd.DistributedOptimizer(optax.sgd(0.05 * hvd.size(), momentum=0.9))
optimizer_state = optimizer.init(params)


@jax.jit
def training_step(params, optimizer_state, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    updates, optimizer_state = optimizer.update(grads, optimizer_state, params)
    return optax.apply_updates(params, updates), optimizer_state, hvd.pmean(loss)


random = np.random.default_rng(hvd.rank())
# All ranks do the same number of steps.
steps = len(images) * 4 // 5 // hvd.size() // args.batch_size
for epoch in range(args.epochs):
    order = random.permutation(len(train_x))
    for step in range(steps):
        chosen = order[step * args.batch_size : (step + 1) * args.batch_size]
        params, optimizer_state, loss = training_step(params, optimizer_state, train_x[chosen], train_y[chosen])
    if hvd.rank() == 0:
        print(f"Epoch #{epoch}\tLoss: {loss:.6f}", flush=True)

if hvd.rank() == 0:
    predicted = np.asarray(predict(params, test_x)).argmax(axis=1)
    print(f"accuracy: {(predicted == test_y).mean():.4f}", flush=True)
