"""A training without end that says when each of its steps was done."""

import time

begun = time.time()

import os

import numpy as np

import ronde
from ronde import elastic
from ronde import numpy as collective

print(f"worker {os.getpid()} imported in {time.time() - begun:.6f}", flush=True)
ronde.init()


@elastic.run
def train(state):
    while True:
        collective.allreduce(np.ones(1024), name="step")
        state.step += 1
        print(f"step {state.step} of {ronde.size()} at {time.time():.6f}", flush=True)
        time.sleep(0.002)
        state.commit()


train(elastic.ArrayState(step=0, weights=np.zeros(1024)))
