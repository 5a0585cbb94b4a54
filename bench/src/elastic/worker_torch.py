"""A training without end that says when each of its steps was done, written for Horovod."""

import time

begun = time.time()

import os

import torch

import horovod.torch as hvd

print(f"worker {os.getpid()} imported in {time.time() - begun:.6f}", flush=True)
hvd.init()

model = torch.nn.Linear(1024, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
batch = torch.ones(8, 1024)


@hvd.elastic.run
def train(state):
    while True:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        state.step += 1
        print(f"step {state.step} of {hvd.size()} at {time.time():.6f}", flush=True)
        time.sleep(0.002)
        state.commit()


train(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0))
