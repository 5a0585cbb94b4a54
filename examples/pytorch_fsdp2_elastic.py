"""Learns handwritten digits with fully sharded data parallel (FSDP2), on workers that come and go without being restarted.

The shards of a worker that dies are not lost: at a commit each rank gives them to another one too. The digits are those
that come with scikit-learn, so nothing is downloaded. Alone: `python pytorch_fsdp2_elastic.py`.
Elastic: `ronde run -np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh python pytorch_fsdp2_elastic.py`.
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

from ronde.torch import elastic


def load():
    """Every fifth digit is for the test."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16
    labels = torch.tensor(digits.target)
    is_test = torch.arange(len(labels)) % 5 == 0
    return TensorDataset(images[~is_test], labels[~is_test]), (images[is_test], labels[is_test])


def build(training):
    """Called whenever the ranks have changed, with the process group of those that are there."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    # It knows which samples of an epoch are done, and cuts the others anew.
    sampler = elastic.ElasticSampler(training)
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler, "sampler": sampler}


@elastic.run
def train(state, training, args):
    while state.epoch < args.epochs:
        loader = DataLoader(training, batch_size=args.batch_size, sampler=state.sampler)
        for number, (images, labels) in enumerate(loader):
            state.optimizer.zero_grad()
            F.cross_entropy(state.model(images), labels).backward()
            state.optimizer.step()
            state.sampler.record_batch(number, args.batch_size)
            if number % args.batches_per_commit == 0:
                state.commit()
        state.scheduler.step()
        state.epoch += 1
        if dist.get_rank() == 0:
            print(f"epoch {state.epoch}: ranks {dist.get_world_size()}", flush=True)
        state.sampler.set_epoch(state.epoch)
        state.commit()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches-per-commit", type=int, default=4)
    args = parser.parse_args()

    # All begin with the same weights.
    torch.manual_seed(1)
    training, (images, labels) = load()
    state = elastic.DistributedState(lambda: build(training), epoch=0)
    train(state, training, args)
    # All ranks together: each has a part of every layer.
    with torch.no_grad():
        right = (state.model(images).argmax(1) == labels).float().mean()
    if dist.get_rank() == 0:
        print(f"ranks: {dist.get_world_size()}, accuracy: {right.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
