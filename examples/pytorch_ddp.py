"""Learns handwritten digits with PyTorch's own DistributedDataParallel, over Ronde's engine.

The digits are those that come with scikit-learn, so nothing is downloaded. Any launcher does:
`horovodrun -np 2 python pytorch_ddp.py`, `torchrun --standalone --nproc-per-node 2 pytorch_ddp.py`.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ronde.torch.distributed  # noqa: F401


def load():
    """Every fifth digit is for the test."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16
    labels = torch.tensor(digits.target)
    is_test = torch.arange(len(labels)) % 5 == 0
    return images[~is_test], labels[~is_test], images[is_test], labels[is_test]


def main():
    # The line that makes it Ronde: the rest is any script for torch.distributed.
    dist.init_process_group("ronde")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    images, labels, test_images, test_labels = load()
    for epoch in range(5):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        # Everybody gets equally many whole batches.
        own = order[: len(order) // (32 * size) * 32 * size][rank::size]
        for batch in own.split(32):
            optimizer.zero_grad()
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            right = (model(test_images).argmax(1) == test_labels).float().mean()
        dist.all_reduce(right, op=dist.ReduceOp.AVG)
        if rank == 0:
            print(f"epoch {epoch + 1}: accuracy {right.item():.4f} on {size} ranks", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
