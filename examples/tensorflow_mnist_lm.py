"""Handwritten digits with TensorFlow and Horovod's API: a training script as people have them.

usage: horovodrun -np 2 python tensorflow_mnist_lm.py [--epochs N]

The digits are those that come with scikit-learn; nothing is downloaded.
"""

import argparse

import horovod.tensorflow as hvd
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()

hvd.init()
for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(gpu, True)

images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32").reshape(-1, 8, 8, 1)
train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.2, random_state=0)
data = tf.data.Dataset.from_tensor_slices((train_x, train_y)).shard(hvd.size(), hvd.rank())
data = data.shuffle(2000, seed=hvd.rank()).batch(args.batch_size, drop_remainder=True)

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
# Horovod: the learning rate grows with the number of ranks.
optimizer = tf.keras.optimizers.SGD(0.05 * hvd.size(), momentum=0.9)


@tf.function
def training_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    # Horovod: the gradients are everybody's.
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


step = 0
for epoch in range(args.epochs):
    for x, y in data:
        loss = training_step(x, y)
        if step == 0:
            # Horovod: everybody begins with the first rank's variables, after the first step has made them all.
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables, root_rank=0)
        if step % 20 == 0 and hvd.rank() == 0:
            print(f"Step #{step}\tLoss: {loss.numpy():.6f}", flush=True)
        step += 1

if hvd.rank() == 0:
    predicted = tf.argmax(model(test_x), axis=1).numpy()
    print(f"accuracy: {(predicted == test_y).mean():.4f}", flush=True)
