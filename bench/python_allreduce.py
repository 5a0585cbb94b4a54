"""Allreduce as a Python user calls it: Ronde beside torch.distributed with Gloo and, if there is mpi4py, Open MPI.

usage: python_allreduce.py [--ranks N] [--max-bytes B]

One peer after the other, the same tensors, in place, sum of float32; medians of the slowest rank, and ratios.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

SECONDS_PER_SIZE = 0.5


def ronde():
    import torch

    import ronde.torch as hvd

    hvd.init()
    reduce = lambda tensor: hvd.allreduce_(tensor, op=hvd.Sum, name="x")  # noqa: E731
    return hvd.rank(), lambda size: torch.zeros(size // 4), reduce, hvd.allgather_object


def gloo():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")

    def gather(value):
        values = [None] * dist.get_world_size()
        dist.all_gather_object(values, value)
        return values

    return dist.get_rank(), lambda size: torch.zeros(size // 4), dist.all_reduce, gather


def mpi():
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    reduce = lambda array: comm.Allreduce(MPI.IN_PLACE, array)  # noqa: E731
    return comm.Get_rank(), lambda size: np.zeros(size // 4, "float32"), reduce, comm.allgather


PEERS = {"ronde": ronde, "gloo": gloo, "mpi": mpi}


def measure(peer, max_bytes):
    """On every rank: the median time of an allreduce, by size."""
    rank, make, reduce, gather = PEERS[peer]()
    size, medians = 1024, {}
    while size <= max_bytes:
        tensor = make(size)
        begun = time.perf_counter()
        for _ in range(5):
            reduce(tensor)
        # Everybody must do it equally often.
        turns = max(5, min(2000, int(SECONDS_PER_SIZE / ((time.perf_counter() - begun) / 5))))
        times = []
        for _ in range(min(gather(turns))):
            begun = time.perf_counter()
            reduce(tensor)
            times.append(time.perf_counter() - begun)
        medians[size] = max(gather(statistics.median(times)))
        size *= 8
    if rank == 0:
        print(json.dumps(medians), flush=True)


def start(peer, ranks, max_bytes):
    """Starts the ranks of a peer; returns what the first says."""
    command = [sys.executable, __file__, "--peer", peer, "--max-bytes", str(max_bytes)]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    if peer == "mpi":
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]
        told = subprocess.run(mpirun + command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(told.stdout)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    processes = [
        subprocess.Popen(command, env=dict(environment, RANK=str(rank)), stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    outputs = [process.communicate()[0] for process in processes]
    return json.loads(outputs[0])


def is_there(peer):
    module = {"gloo": "torch", "mpi": "mpi4py"}.get(peer, "ronde")
    return subprocess.run([sys.executable, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=PEERS)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--max-bytes", type=int, default=64 * 1024 * 1024)
    args = parser.parse_args()
    if args.peer:
        measure(args.peer, args.max_bytes)
        return
    peers = [peer for peer in PEERS if is_there(peer)]
    results = {peer: start(peer, args.ranks, args.max_bytes) for peer in peers}
    print(f"{args.ranks} ranks\n{'bytes':>12}" + "".join(f"{peer + ' µs':>14}" for peer in peers))
    for size, own in results["ronde"].items():
        cells = [f"{results[peer][size] * 1e6:9.1f}" for peer in peers]
        ratios = [f" {results[peer][size] / own:3.1f}x" for peer in peers]
        print(f"{size:>12}" + "".join(cell + ratio for cell, ratio in zip(cells, ratios)))


if __name__ == "__main__":
    main()
