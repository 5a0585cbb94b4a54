"""Learns a plane with PyTorch on workers that come and go, and counts every sample that it uses.

Written for Horovod's elastic API, as users' scripts are. The data have no noise: whatever the order of the samples
is, the loss goes to zero. The last line says how often samples were lost or used twice in an epoch; the sampler fills
up the last batches so that all ranks have as many, which makes at most one repetition for each other rank.
"""

import argparse
import time
from collections import Counter

import torch

import horovod.torch as hvd

SAMPLES, FEATURES, BATCH = 241, 8, 4


def load():
    torch.manual_seed(3)
    features = torch.randn(SAMPLES, FEATURES)
    return features, features @ torch.randn(FEATURES, 1) + 0.5


@hvd.elastic.run
def train(state, data, args):
    features, targets = data
    while state.epoch < args.epochs:
        loader = torch.utils.data.DataLoader(range(SAMPLES), batch_size=BATCH, sampler=state.sampler)
        for number, batch in enumerate(loader):
            state.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(state.model(features[batch]), targets[batch])
            loss.backward()
            state.optimizer.step()
            state.seen = state.seen + hvd.allgather(batch, name="batch").tolist()
            state.ranks = max(state.ranks, hvd.size())
            state.sampler.record_batch(number, BATCH)
            print(f"Step #{state.epoch} of {hvd.size()} ranks", flush=True)
            time.sleep(args.pause)
            state.commit()
        uses = Counter(state.seen)
        state.lost += SAMPLES - len(uses)
        state.twice = max(state.twice, sum(uses.values()) - len(uses))
        state.epoch += 1
        state.seen = []
        state.sampler.set_epoch(state.epoch)
        state.commit()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--pause", type=float, default=0)
    args = parser.parse_args()

    hvd.init()
    data = load()
    model = torch.nn.Linear(FEATURES, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(range(SAMPLES))
    counts = {"epoch": 0, "seen": [], "lost": 0, "twice": 0, "ranks": 0}
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, **counts)
    train(state, data, args)
    if hvd.rank() == 0:
        with torch.no_grad():
            loss = torch.nn.functional.mse_loss(model(data[0]), data[1]).item()
        whole = state.epoch if state.twice < state.ranks else f"not {state.epoch}"
        print(f"epochs: {state.epoch}, samples: {whole} times all of them, lost: {state.lost}, ", end="")
        print(f"twice at most: {state.twice} of {state.ranks} ranks, loss: {loss:.9f}", flush=True)


if __name__ == "__main__":
    main()
