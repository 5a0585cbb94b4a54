"""Learns handwritten digits with Hugging Face's Accelerate, over Ronde's engine.

The digits are those that come with scikit-learn, so nothing is downloaded. Ranks are started by
`torchrun --standalone --nproc-per-node 2 accelerate_ddp.py`, or by `accelerate launch`.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ronde.torch.distributed  # noqa: F401


def load():
    """Every fifth digit is for the test."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16
    labels = torch.tensor(digits.target)
    is_test = torch.arange(len(labels)) % 5 == 0
    return TensorDataset(images[~is_test], labels[~is_test]), TensorDataset(images[is_test], labels[is_test])


def main():
    # The line that makes it Ronde: Accelerate takes a process group that is there. By itself it takes Gloo on CPUs,
    # whatever InitProcessGroupKwargs say.
    dist.init_process_group("ronde")
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(1)
    training, testing = load()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    loaders = DataLoader(training, batch_size=32, shuffle=True), DataLoader(testing, batch_size=32)
    model, optimizer, training, testing = accelerator.prepare(model, optimizer, *loaders)
    for epoch in range(5):
        for images, labels in training:
            optimizer.zero_grad()
            accelerator.backward(F.cross_entropy(model(images), labels))
            optimizer.step()
        right = total = 0
        for images, labels in testing:
            with torch.no_grad():
                found = model(images).argmax(1)
            found, labels = accelerator.gather_for_metrics((found, labels))
            right, total = right + (found == labels).sum().item(), total + len(labels)
        accelerator.print(f"epoch {epoch + 1}: accuracy {right / total:.4f} on {accelerator.num_processes} ranks", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
