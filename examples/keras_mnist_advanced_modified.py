"""Handwritten digits with Keras and Horovod's API: warm-up, schedule, averaged metrics, a checkpoint.

usage: mpirun -np 3 python keras_mnist_advanced_modified.py [--epochs N] [--checkpoint FILE]

The digits are those that come with scikit-learn; nothing is downloaded.
"""

import argparse

import horovod.keras as hvd
import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--checkpoint", help="where the first rank keeps its best model")
args = parser.parse_args()

hvd.init()
images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32").reshape(-1, 8, 8, 1)
train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.2, random_state=0)
train_x, train_y = train_x[hvd.rank() :: hvd.size()], train_y[hvd.rank() :: hvd.size()]

model = keras.Sequential(
    [
        keras.Input([8, 8, 1]),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.25),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
rate = 0.05 * hvd.size()
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(rate, momentum=0.9))
model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=rate, warmup_epochs=3, verbose=hvd.rank() == 0),
    hvd.callbacks.LearningRateScheduleCallback(initial_lr=rate, multiplier=0.1, start_epoch=args.epochs * 3 // 4),
]
if hvd.rank() == 0 and args.checkpoint:
    callbacks.append(keras.callbacks.ModelCheckpoint(args.checkpoint, save_best_only=True, monitor="loss"))

model.fit(
    train_x,
    train_y,
    batch_size=args.batch_size,
    epochs=args.epochs,
    callbacks=callbacks,
    verbose=2 if hvd.rank() == 0 else 0,
)
score = model.evaluate(test_x, test_y, verbose=0)
if hvd.rank() == 0:
    print(f"Test loss: {score[0]:.4f}")
    print(f"Test accuracy: {score[1]:.4f}", flush=True)
