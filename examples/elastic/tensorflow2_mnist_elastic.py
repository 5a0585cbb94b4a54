"""Handwritten digits with TensorFlow and Elastic Horovod's API: ranks come and go, the training goes on.

usage: horovodrun -np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh python tensorflow2_mnist_elastic.py

The digits are those that come with scikit-learn; nothing is downloaded.
"""

import argparse
import os
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=600, help="steps of one rank; more ranks need fewer")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--commit-every", type=int, default=10)
parser.add_argument("--pause", type=float, default=0.0, help="seconds between steps, to have something to watch")
parser.add_argument("--until", default="", help="train on until this file is there")
args = parser.parse_args()

hvd.init()
print(f"pid {os.getpid()}", flush=True)
images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32").reshape(-1, 8, 8, 1)
train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.2, random_state=0)

model = tf.keras.Sequential(
    [
        tf.keras.Input([8, 8, 1]),
        tf.keras.layers.Conv2D(16, 3, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10),
    ]
)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
base_rate = 0.05
optimizer = tf.keras.optimizers.SGD(base_rate * hvd.size(), momentum=0.9)


@tf.function
def training_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


def is_over(state):
    """Whether all steps are done and there is the sign to end; ranks agree on it, as each looks at another moment."""
    if state.batch * hvd.size() < args.steps or not args.until:
        return state.batch * hvd.size() >= args.steps
    told = tf.constant([1.0 if os.path.exists(args.until) else 0.0])
    return hvd.allreduce(told, op=hvd.Max, name="until").numpy()[0] > 0


@hvd.elastic.run
def train(state):
    while not is_over(state):
        # The same numbers whatever the number of ranks: everybody takes its own part of them.
        chosen = np.random.default_rng(state.batch).permutation(len(train_x))
        chosen = chosen[hvd.rank() :: hvd.size()][: args.batch_size]
        loss = training_step(train_x[chosen], train_y[chosen])
        if state.batch % 10 == 0:
            print(f"Step #{state.batch}    Loss: {loss.numpy():.6f}", flush=True)
        state.batch += 1
        if state.batch % args.commit_every == 0:
            state.commit()
        time.sleep(args.pause)


def on_state_reset():
    optimizer.learning_rate.assign(base_rate * hvd.size())


state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0)
state.register_reset_callbacks([on_state_reset])
train(state)

if hvd.rank() == 0:
    predicted = tf.argmax(model(test_x), axis=1).numpy()
    print(f"accuracy: {(predicted == test_y).mean():.4f}", flush=True)
