"""Learns handwritten digits with PyTorch, on workers that come and go: written for Horovod's elastic API.

The digits are those that come with scikit-learn, so nothing is downloaded. Alone: `python pytorch_mnist_elastic.py`.
Elastic: `ronde run -np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh python pytorch_mnist_elastic.py`.
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import horovod.torch as hvd


def load():
    """Every fifth digit is for the test."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    is_test = torch.arange(len(labels)) % 5 == 0
    return TensorDataset(images[~is_test], labels[~is_test]), TensorDataset(images[is_test], labels[is_test])


def build():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
        nn.LogSoftmax(dim=1),
    )


@hvd.elastic.run
def train(state, training, args):
    while state.epoch < args.epochs:
        state.model.train()
        loader = DataLoader(training, batch_size=args.batch_size, sampler=state.sampler)
        for number, (images, labels) in enumerate(loader):
            state.optimizer.zero_grad()
            loss = F.nll_loss(state.model(images), labels)
            loss.backward()
            state.optimizer.step()
            state.sampler.record_batch(number, args.batch_size)
            state.seen += args.batch_size * hvd.size()
            if number % args.batches_per_commit == 0:
                state.commit()
        if hvd.rank() == 0:
            print(f"epoch {state.epoch + 1}: loss {loss.item():.3f}, ranks {hvd.size()}", flush=True)
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()


def test(model, data):
    """Each rank tests its share; the sums are everybody's."""
    model.eval()
    images, labels = data[hvd.rank() :: hvd.size()]
    with torch.no_grad():
        right = (model(images).argmax(dim=1) == labels).sum()
    right, total = hvd.allreduce(torch.tensor([right, len(labels)]), op=hvd.Sum, name="accuracy").tolist()
    return 100 * right / total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches-per-commit", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(42)
    training, testing = load()
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(training)

    def on_reset():
        for group in optimizer.param_groups:
            group["lr"] = args.lr * hvd.size()

    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, seen=0)
    state.register_reset_callbacks([on_reset])
    train(state, training, args)
    accuracy = test(model, testing)
    if hvd.rank() == 0:
        print(f"ranks: {hvd.size()}, accuracy: {accuracy:.1f}%", flush=True)


if __name__ == "__main__":
    main()
