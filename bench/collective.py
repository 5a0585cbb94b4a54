"""Collectives as a Python user calls them: Ronde beside Horovod, torch.distributed with our backend and with Gloo, Open
MPI through mpi4py.

usage: collective.py [--only SECTION] [--max-megabytes N] [--plot FILE]

One peer after the other on the same tensors, in one run. Times are medians of the slowest rank; a ratio says how many
times longer the peer takes. Training goes in turns, several of each peer. A peer that is not installed is left out.
Horovod is run by the interpreter that HOROVOD_PYTHON names, with HOROVOD_PYTHONPATH for its modules, and never with
those of this process, among which ours has its name. Between namespaces needs root, and Horovod an sshd: it is left
out there. The plot is an SVG of all sums that were measured.
"""

import argparse
import contextlib
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SECONDS_PER_SIZE = 0.4
TURNS_MIN, TURNS_MAX = 5, 2000
RANK_SECONDS_MAX = 120
# Steps of a model in one turn, of which the first two are not counted, and turns of every peer.
CNN_STEPS, MLP_STEPS, TRAINING_TURNS = 60, 8, 3
IDLE_SECONDS = 2
NAMESPACES = ("ronde-bench-0", "ronde-bench-1")
ADDRESSES = ("10.77.31.1", "10.77.31.2")


# --- peers: how a rank begins, sums and gathers ---------------------------------------------------------------------


class Ronde:
    shown, module = "ronde", "ronde"

    def __init__(self):
        import ronde.torch as hvd

        self.hvd = hvd
        self.begin = hvd.init
        self.gather = hvd.allgather_object

    def sum(self, tensor):
        self.hvd.allreduce_(tensor, op=self.hvd.Sum, name="x")

    def train(self, model, optimizer):
        self.hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model, self.hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


class Horovod(Ronde):
    # The name that ours does not have.
    shown, module = "Horovod", "horovod.torch.mpi_lib_v2"

    def __init__(self):
        import horovod.torch as hvd

        self.hvd = hvd
        self.begin = hvd.init
        self.gather = hvd.allgather_object


class Gloo:
    shown, module = "Gloo", "torch.distributed"

    def __init__(self):
        import torch.distributed as dist

        self.dist = dist
        self.sum = dist.all_reduce

    def begin(self):
        self.dist.init_process_group("gloo")

    def gather(self, value):
        values = [None] * self.dist.get_world_size()
        self.dist.all_gather_object(values, value)
        return values

    def train(self, model, optimizer):
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model), optimizer


class Backend(Gloo):
    shown, module = "backend ronde", "ronde"

    def begin(self):
        import ronde.torch.distributed  # noqa: F401

        self.dist.init_process_group("ronde")


class OpenMpi:
    shown, module = "Open MPI", "mpi4py"

    def begin(self):
        from mpi4py import MPI

        self.comm, self.in_place = MPI.COMM_WORLD, MPI.IN_PLACE

    def sum(self, tensor):
        self.comm.Allreduce(self.in_place, tensor.numpy())

    def gather(self, value):
        return self.comm.allgather(value)


PEERS = {"ronde": Ronde, "horovod": Horovod, "backend": Backend, "gloo": Gloo, "mpi": OpenMpi}


# --- what a rank measures -------------------------------------------------------------------------------------------


def measure_sums(peer, max_bytes):
    """By size: the median of the slowest rank, and the processor time of all ranks, for each turn."""
    import torch

    peer.begin()
    size, found = 1024, {}
    while size <= max_bytes:
        tensor = torch.zeros(size // 4)
        begun = time.perf_counter()
        for _ in range(3):
            peer.sum(tensor)
        wanted = SECONDS_PER_SIZE / ((time.perf_counter() - begun) / 3)
        # Everybody must do it equally often.
        turns = min(peer.gather(max(TURNS_MIN, min(TURNS_MAX, int(wanted)))))
        times, worked = [], time.process_time()
        for _ in range(turns):
            begun = time.perf_counter()
            peer.sum(tensor)
            times.append(time.perf_counter() - begun)
        worked = (time.process_time() - worked) / turns
        found[size] = max(peer.gather(statistics.median(times))), sum(peer.gather(worked))
        size *= 4
    return found


def measure_start(peer, _):
    """From the last rank that is ready until all can sum; and the share of a processor that all ranks use at rest."""
    import torch

    ready = time.time()
    peer.begin()
    peer.sum(torch.zeros(1))
    done = time.time()
    ready, done = max(peer.gather(ready)), max(peer.gather(done))
    worked = time.process_time()
    time.sleep(IDLE_SECONDS)
    worked = time.process_time() - worked
    return {"start": done - ready, "idle": sum(peer.gather(worked)) / IDLE_SECONDS}


def cnn():
    from torch import nn

    convolutions = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*convolutions, nn.Linear(32 * 12 * 12, 64), nn.ReLU(), nn.Linear(64, 10)), (64, 1, 28, 28)


def mlp():
    """50 million parameters."""
    from torch import nn

    layers = [layer for _ in range(3) for layer in (nn.Linear(4096, 4096), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(4096, 10)), (64, 4096)


def measure_training(peer, _):
    """Samples per second of all ranks."""
    import torch

    if peer:
        peer.begin()
    found = {}
    for name, build, steps in (("small CNN", cnn, CNN_STEPS), ("50 M MLP", mlp, MLP_STEPS)):
        torch.manual_seed(1)
        model, shape = build()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        if peer:
            model, optimizer = peer.train(model, optimizer)
        batch, labels = torch.randn(shape), torch.randint(10, (shape[0],))
        times = []
        for _ in range(steps):
            begun = time.perf_counter()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), labels).backward()
            optimizer.step()
            times.append(time.perf_counter() - begun)
        own = shape[0] / statistics.median(times[2:])
        found[name] = sum(peer.gather(own)) if peer else own
    return found


TASKS = {"sums": measure_sums, "start": measure_start, "training": measure_training}


# --- starting ranks -------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(peer, task, ranks, max_bytes=0, is_tcp=False, is_apart=False):
    """Starts the ranks of a peer, each in a namespace of its own if apart; returns what the first found."""
    script = [os.path.abspath(__file__), "--peer", peer, "--task", task, "--max-bytes", str(max_bytes)]
    if peer == "horovod":
        return start_horovod(script, ranks, is_apart)
    command = [sys.executable, *script]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    if is_tcp:
        environment["RONDE_TRANSPORT"] = "tcp"
    if peer == "mpi":
        return start_mpi(command, environment, ranks, is_tcp, is_apart)
    address = ADDRESSES[0] if is_apart else "127.0.0.1"
    environment.update(WORLD_SIZE=str(ranks), MASTER_ADDR=address, MASTER_PORT=str(free_port()))
    processes = []
    for rank in range(ranks):
        prefix = ["ip", "netns", "exec", NAMESPACES[rank]] if is_apart else []
        own = dict(environment, RANK=str(rank))
        if is_apart:
            own["GLOO_SOCKET_IFNAME"] = f"veth-bench-{rank}"
        processes.append(subprocess.Popen(prefix + command, env=own, stdout=subprocess.PIPE, text=True))
    try:
        outputs = [process.communicate(timeout=RANK_SECONDS_MAX)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return json.loads(outputs[0])


def horovod():
    """The interpreter that has Horovod, and what it needs to know; None if none is named."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if "HOROVOD_PYTHONPATH" in environment:
        environment["PYTHONPATH"] = environment["HOROVOD_PYTHONPATH"]
    return os.environ.get("HOROVOD_PYTHON"), dict(environment, OMP_NUM_THREADS="1")


def start_horovod(script, ranks, is_apart):
    if is_apart:
        raise RuntimeError("its launcher needs an sshd in each namespace")
    python, environment = horovod()
    launcher = [python, "-m", "horovod.runner.launch", "--gloo", "-np", str(ranks)]
    return told_by([*launcher, python, *script], environment)


def start_mpi(command, environment, ranks, is_tcp, is_apart):
    # Two namespaces are one machine: bound to the first core of "their" host, both ranks would share it.
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
    if is_tcp:
        mpirun += ["--mca", "btl", "tcp,self"]
    if not is_apart:
        return told_by(mpirun + command, environment)
    with tempfile.NamedTemporaryFile("w", suffix=".sh", dir=os.getcwd()) as agent:
        # Open MPI starts its daemon through this as through ssh; ranks of one host name would share memory.
        other = f'exec ip netns exec {NAMESPACES[1]} unshare --uts sh -c "hostname bench-1; $*"'
        agent.write(f"#!/bin/sh\nshift\n{other}\n")
        agent.flush()
        networks = ["--mca", "btl_tcp_if_include", f"{ADDRESSES[0]}/24", "--mca", "oob_tcp_if_include", f"{ADDRESSES[0]}/24"]
        hosts = ["--mca", "plm_rsh_agent", f"sh {agent.name}", "-H", ",".join(ADDRESSES)]
        return told_by(["ip", "netns", "exec", NAMESPACES[0], *mpirun, *networks, *hosts, *command], environment)


def told_by(command, environment):
    told = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=RANK_SECONDS_MAX, stdin=subprocess.DEVNULL
    )
    if told.returncode != 0:
        raise RuntimeError(told.stderr.strip()[-500:])
    # Horovod's launcher says in front of a line who wrote it.
    return json.loads(told.stdout.strip().splitlines()[-1].removeprefix("[0]<stdout>:"))


@contextlib.contextmanager
def namespaces():
    """Two network namespaces with a wire between them."""

    def ip(*words, check=True):
        subprocess.run(["ip", *words], check=check, stderr=None if check else subprocess.DEVNULL)

    def remove():
        for name in NAMESPACES:
            ip("netns", "del", name, check=False)

    remove()
    try:
        for name in NAMESPACES:
            ip("netns", "add", name)
        first = ["link", "add", "veth-bench-0", "netns", NAMESPACES[0], "type", "veth"]
        ip(*first, "peer", "name", "veth-bench-1", "netns", NAMESPACES[1])
        for number, (name, address) in enumerate(zip(NAMESPACES, ADDRESSES)):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", f"veth-bench-{number}")
            ip("-n", name, "link", "set", f"veth-bench-{number}", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        remove()


# --- tables ---------------------------------------------------------------------------------------------------------


def table(title, rows, peers, cells, is_more_better=False):
    """Prints a row for each of `rows`, with ratios against the first peer."""
    print(f"\n{title}\n{'':<22}" + "".join(f"{PEERS[peer].shown:>14}{'':>8}" for peer in peers))
    for row, shown in rows:
        line = f"{row:<22}"
        own = cells(peers[0], row)
        for peer in peers:
            value = cells(peer, row)
            if value is None or own is None:
                line += f"{'-':>14}{'':>8}"
                continue
            ratio = own / max(value, 1e-9) if is_more_better else value / max(own, 1e-9)
            line += f"{shown(value):>14}" + (f"{ratio:>7.2f}×" if peer != peers[0] else f"{'':>8}")
        print(line)
    sys.stdout.flush()


# --- the plot -------------------------------------------------------------------------------------------------------

PANEL_WIDTH, PANEL_HEIGHT, MARGIN = 420, 320, 60
COLOURS = {"ronde": "#c2410c", "horovod": "#15803d", "backend": "#a16207", "gloo": "#64748b", "mpi": "#1d4ed8"}


def draw(path, panels):
    """Writes one panel for each title: time over size, both logarithmic, one line for each peer."""
    width, height = len(panels) * (PANEL_WIDTH + MARGIN) + MARGIN, PANEL_HEIGHT + 2 * MARGIN
    shapes = [panel(title, found, MARGIN + index * (PANEL_WIDTH + MARGIN)) for index, (title, found) in enumerate(panels)]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">')
        file.write('<rect width="100%" height="100%" fill="white"/>' + "".join(shapes) + "</svg>\n")


def panel(title, found, left):
    sizes = sorted(int(size) for size in found["ronde"])
    times = [seconds for sums in found.values() for seconds, _ in sums.values()]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    x = lambda size: left + PANEL_WIDTH * math.log(int(size) / sizes[0]) / math.log(sizes[-1] / sizes[0])  # noqa: E731
    y = lambda seconds: MARGIN + PANEL_HEIGHT * (high - math.log10(seconds)) / (high - low)  # noqa: E731
    shapes = [f'<text x="{left}" y="{MARGIN - 25}" font-size="14">{title}</text>']
    for power in range(low, high + 1):
        shapes.append(f'<path d="M{left} {y(10**power):.1f}h{PANEL_WIDTH}" stroke="#e2e8f0"/>')
        shapes.append(f'<text x="{left - 5}" y="{y(10**power) + 4:.1f}" text-anchor="end">{shown_time(power)}</text>')
    for size in sizes[::2]:
        shapes.append(f'<text x="{x(size):.1f}" y="{MARGIN + PANEL_HEIGHT + 18}" text-anchor="middle">{shown_bytes(size)}</text>')
    for index, (peer, sums) in enumerate(found.items()):
        points = " ".join(f"{x(size):.1f},{y(sums[size][0]):.1f}" for size in sorted(sums, key=int))
        shapes.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[peer]}" stroke-width="2"/>')
        label = f'<text x="{left + 10}" y="{MARGIN + 16 * (index + 1)}" fill="{COLOURS[peer]}">{PEERS[peer].shown}</text>'
        shapes.append(label)
    return "".join(shapes)


def shown_time(power):
    return {-6: "1 µs", -5: "10 µs", -4: "100 µs", -3: "1 ms", -2: "10 ms", -1: "100 ms", 0: "1 s"}.get(power, f"1e{power} s")


def shown_bytes(size):
    return f"{size // 1024} KB" if size < 1 << 20 else f"{size >> 20} MB"


def try_all(peers, measure):
    """What each peer found; one that fails is left out, with the reason."""
    found = {}
    for peer in peers:
        try:
            found[peer] = measure(peer)
        except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"{PEERS[peer].shown}: {error}", file=sys.stderr)
    return found


def show_sums(title, peers, measure, panels):
    found = try_all(peers, measure)
    panels.append((title, found))
    sizes = {shown_bytes(int(size)): size for size in found["ronde"]}
    microseconds = [(name, lambda value: f"{value * 1e6:.1f} µs") for name in sizes]
    table(title, microseconds, list(found), lambda peer, row: found[peer][sizes[row]][0])
    nanoseconds = [(name, lambda value: f"{value:.2f} ns") for name in sizes if int(sizes[name]) >= 1 << 20]
    cpu = lambda peer, row: found[peer][sizes[row]][1] * 1e9 / int(sizes[row])  # noqa: E731
    table("processor time for each byte, all ranks together", nanoseconds, list(found), cpu)


def section_host(peers, args):
    for ranks in (2, 4):
        title = f"allreduce on one host, {ranks} ranks"
        show_sums(title, peers, lambda peer: start(peer, "sums", ranks, args.max_megabytes << 20), args.panels)


def section_network(peers, args):
    max_bytes = min(args.max_megabytes, 64) << 20
    if os.geteuid() != 0:
        title = "allreduce over TCP on loopback, 2 ranks (namespaces need root)"
        return show_sums(title, peers, lambda peer: start(peer, "sums", 2, max_bytes, is_tcp=True), args.panels)
    with namespaces():
        title = "allreduce over TCP between two network namespaces, 2 ranks"
        measure = lambda peer: start(peer, "sums", 2, max_bytes, is_tcp=True, is_apart=True)  # noqa: E731
        show_sums(title, peers, measure, args.panels)


def section_start(peers, _):
    found = try_all([peer for peer in peers if peer != "mpi"], lambda peer: start(peer, "start", 8))
    rows = [("start", lambda value: f"{value * 1e3:.0f} ms"), ("idle", lambda value: f"{value * 100:.2f} %")]
    title = "8 ranks: from the last one ready to the first sum; processor at rest, all ranks together"
    table(title, rows, list(found), lambda peer, row: found[peer][row])


def medians(turns):
    return {row: statistics.median(turn[row] for turn in turns) for row in turns[0]}


def section_training(peers, _):
    peers = [peer for peer in peers if peer != "mpi"]
    command = [sys.executable, os.path.abspath(__file__), "--task", "training"]
    turns, alone = {peer: [] for peer in peers}, []
    # In turns, every other one backwards: what else the machine does falls on all alike.
    for turn in range(TRAINING_TURNS):
        order = peers if turn % 2 == 0 else peers[::-1]
        for peer, found in try_all(order, lambda peer: start(peer, "training", 2)).items():
            turns[peer].append(found)
        alone.append(told_by(command, dict(os.environ, OMP_NUM_THREADS="1")))
    found, alone = {peer: medians(own) for peer, own in turns.items() if own}, medians(alone)
    rows = [(name, lambda value: f"{value:.0f} /s") for name in alone]
    cells = lambda peer, row: found[peer][row]  # noqa: E731
    table("training, samples per second of 2 ranks together", rows, list(found), cells, is_more_better=True)
    rows = [(name, lambda value: f"{value * 100:.0f} %") for name in alone]
    cells = lambda peer, row: found[peer][row] / (2 * alone[row])  # noqa: E731
    table("of what twice the speed of one rank alone would be", rows, list(found), cells, is_more_better=True)


SECTIONS = {
    "host": section_host,
    "network": section_network,
    "start": section_start,
    "training": section_training,
}


def is_there(peer):
    python, environment = horovod() if peer == "horovod" else (sys.executable, dict(os.environ))
    tried = python and subprocess.run(
        [python, "-c", f"import {PEERS[peer].module}"], env=environment, stderr=subprocess.DEVNULL
    )
    if not tried or tried.returncode != 0:
        print(f"{PEERS[peer].shown}: not installed")
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SECTIONS, action="append")
    parser.add_argument("--max-megabytes", type=int, default=256)
    parser.add_argument("--plot", metavar="FILE")
    for hidden in ("--peer", "--task"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--max-bytes", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        peer = PEERS[args.peer]() if args.peer else None
        found = TASKS[args.task](peer, args.max_bytes)
        ranks = (os.environ.get(name) for name in ("HOROVOD_RANK", "RANK", "OMPI_COMM_WORLD_RANK"))
        if int(next(filter(None, ranks), 0)) == 0:
            print(json.dumps(found), flush=True)
        return
    peers = [peer for peer in PEERS if is_there(peer)]
    args.panels = []
    for name in args.only or SECTIONS:
        SECTIONS[name](peers, args)
    if args.plot and args.panels:
        draw(args.plot, args.panels)
        print(f"\nplot: {args.plot}")


if __name__ == "__main__":
    main()
