"""Learns to tell two classes apart with NumPy alone, on workers that come and go.

The data are made from a fixed seed, and every step uses the same samples whatever the number of ranks is: the result
is always the same, however often ranks were lost or added. Alone: `python numpy_elastic.py`. Elastic:
`ronde run -np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh python numpy_elastic.py`.
"""

import argparse
import os
import time

import numpy as np

import ronde
from ronde import elastic
from ronde import numpy as collective

SAMPLES, FEATURES = 4096, 32


def load():
    random = np.random.default_rng(7)
    features = random.standard_normal((SAMPLES, FEATURES))
    labels = (features @ random.standard_normal(FEATURES) + random.standard_normal(SAMPLES) > 0).astype(float)
    return features, labels


def loss_and_gradient(weights, features, labels):
    """Sums over the samples, so that the ranks' shares can be added up."""
    chance = 1 / (1 + np.exp(-features @ weights))
    right = np.where(labels == 1, chance, 1 - chance)
    return -np.log(np.maximum(right, 1e-12)).sum(), features.T @ (chance - labels)


def batch_of(step, size):
    """The samples of a step, the same on every rank."""
    return np.random.default_rng(step).integers(0, SAMPLES, size)


def is_over(state, args):
    """Whether all steps are done, or there is the sign to end; ranks agree on it, as each looks at another moment."""
    if not args.until or state.step >= args.steps:
        return state.step >= args.steps
    told = np.array([1.0 if os.path.exists(args.until) else 0.0])
    return collective.allreduce(told, op=ronde.Max, name="until")[0] > 0


@elastic.run
def train(state, data, args):
    features, labels = data
    while not is_over(state, args):
        batch = batch_of(state.step, args.batch_size)
        share = batch[ronde.rank() :: ronde.size()]
        loss, gradient = loss_and_gradient(state.weights, features[share], labels[share])
        total = collective.allreduce(np.append(gradient, len(share)), op=ronde.Sum, name="gradient")
        state.weights -= args.learning_rate * total[:-1] / total[-1]
        state.samples += int(total[-1])
        state.step += 1
        if state.step % args.print_every == 0:
            print(f"Step #{state.step}    Loss: {loss / max(len(share), 1):.6f}", flush=True)
        if args.pause:
            time.sleep(args.pause)
        if state.step % args.commit_every == 0:
            state.commit()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--commit-every", type=int, default=1, help="steps between two commits")
    parser.add_argument("--print-every", type=int, default=10, help="steps between two lines")
    parser.add_argument("--pause", type=float, default=0, help="seconds to sleep in each step, to have time to look")
    parser.add_argument("--until", default="", help="file that ends the training before all steps are done")
    args = parser.parse_args()

    ronde.init()
    data = load()
    state = elastic.ArrayState(weights=np.zeros(FEATURES), step=0, samples=0)
    train(state, data, args)
    if ronde.rank() == 0:
        loss, _ = loss_and_gradient(state.weights, *data)
        print(f"steps: {state.step}, samples: {state.samples}, loss: {loss / SAMPLES:.6f}", flush=True)


if __name__ == "__main__":
    main()
