"""Learns to tell two classes apart with NumPy alone, on a fixed number of ranks: what Horovod's scripts do, in short.

Alone: `python numpy_train.py`. On several processes: `horovodrun -np 4 python numpy_train.py`, or by mpirun.
"""

import argparse
import socket

import numpy as np

import ronde.numpy as hvd

SAMPLES, FEATURES = 4096, 32


def load():
    random = np.random.default_rng(7)
    features = random.standard_normal((SAMPLES, FEATURES))
    return features, (features @ random.standard_normal(FEATURES) > 0).astype(float)


def chance(weights, features):
    return 1 / (1 + np.exp(-features @ weights))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=1.0)
    args = parser.parse_args()

    hvd.init()
    print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}", flush=True)
    features, labels = (each[hvd.rank() :: hvd.size()] for each in load())
    # Ranks begin with different weights, and go on with those of the first.
    weights = np.random.default_rng(hvd.rank()).standard_normal(FEATURES)
    weights = hvd.broadcast(weights, root_rank=0, name="weights")
    for _ in range(args.steps):
        gradient = features.T @ (chance(weights, features) - labels) / len(labels)
        weights -= args.learning_rate * hvd.allreduce(gradient, op=hvd.Average, name="gradient")
    right = np.mean((chance(weights, features) > 0.5) == (labels == 1))
    accuracy = hvd.allreduce(np.array([right]), op=hvd.Average, name="accuracy")[0]
    if hvd.rank() == 0:
        print(f"ranks: {hvd.size()}, accuracy: {100 * accuracy:.1f}%", flush=True)


if __name__ == "__main__":
    main()
