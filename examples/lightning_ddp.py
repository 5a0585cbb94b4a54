"""Learns handwritten digits with Lightning, over Ronde's engine: the strategy names the backend, the rest is Lightning.

The digits are those that come with scikit-learn, so nothing is downloaded. Lightning starts the ranks itself:
`python lightning_ddp.py --devices 2`. So does `torchrun --standalone --nproc-per-node 2 lightning_ddp.py --devices 2`.
"""

import argparse

import lightning
import torch
import torch.nn.functional as F
from lightning.pytorch.strategies import DDPStrategy
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


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, _):
        images, labels = batch
        return F.cross_entropy(self.layers(images), labels)

    def validation_step(self, batch, _):
        images, labels = batch
        accuracy = (self.layers(images).argmax(1) == labels).float().mean()
        self.log("accuracy", accuracy, sync_dist=True)

    def on_validation_epoch_end(self):
        accuracy = self.trainer.callback_metrics["accuracy"]
        self.print(f"epoch {self.current_epoch + 1}: accuracy {accuracy:.4f} on {self.trainer.world_size} ranks", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.003)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=2)
    args = parser.parse_args()
    lightning.seed_everything(1)
    training, testing = load()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=args.devices,
        # The line that makes it Ronde.
        strategy=DDPStrategy(process_group_backend="ronde"),
        max_epochs=5,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Digits(), DataLoader(training, batch_size=32, shuffle=True), DataLoader(testing, batch_size=32))


if __name__ == "__main__":
    main()
