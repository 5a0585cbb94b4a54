"""Hands a large state from one rank to another, and copies as many bytes for comparison; says what each took."""

import sys
import time

import numpy as np

import ronde
from ronde import elastic

LAYER = 16 << 20

ronde.init()
megabytes, rounds = int(sys.argv[1]), int(sys.argv[2])
names = [f"layer{number}" for number in range((megabytes << 20) // LAYER)]
state = elastic.ArrayState(**{name: np.full(LAYER, ronde.rank(), np.uint8) for name in names})


def timed(what, action):
    ronde.barrier()
    begun = time.perf_counter()
    action()
    if ronde.rank() == 0:
        print(what, time.perf_counter() - begun, flush=True)


for _ in range(rounds):
    timed("sync", lambda: (state.sync(), ronde.barrier()))
    # Which is np.copyto, array by array.
    timed("copy", state.save if ronde.rank() == 0 else lambda: None)
    assert all(getattr(state, name)[-1] == 0 for name in names)
