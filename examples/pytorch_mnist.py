"""Learns handwritten digits with PyTorch, on one process or on many: written for Horovod's API.

The digits are those that come with scikit-learn, so nothing is downloaded. Alone: `python pytorch_mnist.py`.
On four processes of this machine: `mpirun -np 4 python pytorch_mnist.py` (any launcher does).
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import horovod.torch as hvd


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return F.log_softmax(self.fc2(x), dim=1)


def load():
    """Every fifth digit is for the test."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    is_test = torch.arange(len(labels)) % 5 == 0
    return TensorDataset(images[~is_test], labels[~is_test]), TensorDataset(images[is_test], labels[is_test])


def train(model, optimizer, loader, epoch):
    model.train()
    loader.sampler.set_epoch(epoch)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
    if hvd.rank() == 0:
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)


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
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--fp16-allreduce", action="store_true")
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(42)
    training, testing = load()
    sampler = DistributedSampler(training, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(training, batch_size=args.batch_size // hvd.size(), sampler=sampler)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    # The same start for everybody, and gradients of everybody.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), compression=compression
    )

    for epoch in range(1, args.epochs + 1):
        train(model, optimizer, loader, epoch)
    accuracy = test(model, testing)
    if hvd.rank() == 0:
        print(f"ranks: {hvd.size()}, accuracy: {accuracy:.1f}%")


if __name__ == "__main__":
    main()
