"""A sampler that knows which samples of an epoch are done, whoever did them."""

import math
import random

from ronde._basics import basics
from ronde._objects import allgather_object


class ElasticSampler:
    """Cuts what is left of an epoch among the ranks that are there."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.num_replicas = 0
        self.rank = 0
        self.remaining_indices = []
        self.num_samples = 0
        self.total_size = 0
        self.reset()

    def set_epoch(self, epoch):
        """Begins an epoch: nothing of it is done."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """Remembers a batch as done, by all ranks."""
        self.processed_num += batch_size * self.num_replicas

    def load_state_dict(self, state_dict):
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def state_dict(self):
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def reset(self):
        """Cuts anew: the ranks have changed, or the epoch."""
        self.num_replicas = basics.size()
        self.rank = basics.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        indices = list(self.remaining_indices)
        while indices and len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples


def sync_sampler(sampler, name):
    """Brings a sampler where the others are."""
    # Every rank counts for all: whoever is furthest in the first rank's epoch is right.
    states = allgather_object(sampler.state_dict(), name=name)
    epoch = states[0]["epoch"]
    done = max(state["processed_num"] for state in states if state["epoch"] == epoch)
    sampler.load_state_dict({"epoch": epoch, "processed_num": done})
