"""Training through TensorFlow and JAX, beside what each framework has itself for several processes on CPUs.

usage: frameworks.py [--only SECTION] [--max-megabytes N] [--turns N]

Run it with an interpreter that has the framework: sections of one that is missing are left out. Two ranks on this
machine, one thread each, peers in turns, in one run. "alone" trains the same on two processes that do not know each other:
what a step takes longer than that is communication. Sums go through the framework and through NumPy in the same
processes; a ratio says how many times the framework's own way takes longer, or brings less.
"""

import argparse
import importlib.util
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

RANKS = 2
SECONDS_PER_SIZE = 0.4
TURNS_MIN, TURNS_MAX = 5, 2000
RANK_SECONDS_MAX = 300
# Operations of a graph that wait for each other.
CHAIN = 20
# Steps of a model, of which the first five are not counted: they compile and warm up.
STEPS = {"small CNN": 105, "50 M MLP": 15}
BATCH = 64
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


def address(rank):
    return f"127.0.0.1:{int(os.environ['BENCH_PORT']) + rank}"


def shapes(model):
    import numpy as np

    shape = (BATCH, 28, 28, 1) if model == "small CNN" else (BATCH, 4096)
    numbers = np.random.default_rng(1)
    return numbers.standard_normal(shape, np.float32), numbers.integers(0, 10, BATCH)


# --- TensorFlow -----------------------------------------------------------------------------------------------------


class TensorFlow:
    """Trains with Horovod's API; `alone` without any."""

    def __init__(self, peer):
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self.tf, self.peer = tf, peer
        if peer == "own":
            self.strategy = tf.distribute.MultiWorkerMirroredStrategy()
        elif peer == "ronde":
            import horovod.tensorflow as hvd

            self.hvd = hvd
            hvd.init()

    def model(self, name):
        keras = self.tf.keras
        if name == "small CNN":
            layers = [keras.Input([28, 28, 1]), keras.layers.Conv2D(16, 3, activation="relu")]
            layers += [keras.layers.Conv2D(32, 3, activation="relu"), keras.layers.MaxPool2D(2), keras.layers.Flatten()]
            layers += [keras.layers.Dense(64, activation="relu")]
        else:
            layers = [keras.Input([4096])] + [keras.layers.Dense(4096, activation="relu") for _ in range(3)]
        return keras.Sequential([*layers, keras.layers.Dense(10)]), keras.optimizers.SGD(0.01)

    def step(self, name):
        """A function that takes one step."""
        tf = self.tf
        x, y = map(tf.constant, shapes(name))
        if self.peer == "own":
            with self.strategy.scope():
                model, optimizer = self.model(name)
        else:
            model, optimizer = self.model(name)

        def train():
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
                loss = tf.reduce_mean(losses)
            if self.peer == "ronde":
                tape = self.hvd.DistributedGradientTape(tape)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        if self.peer == "own":
            run = tf.function(lambda: self.strategy.run(train))
            return lambda: self.strategy.experimental_local_results(run())[0].numpy()
        run = tf.function(train)
        return lambda: run().numpy()

    def sums(self, size):
        """By name: a function that sums so many bytes, and how often it does."""
        tf, hvd = self.tf, self.hvd
        tensor = tf.zeros([size // 4])

        @tf.function
        def chain(tensor):
            for number in range(CHAIN):
                tensor = hvd.allreduce(tensor, op=hvd.Sum, name=f"chain {number}")
            return tensor

        eager = lambda: hvd.allreduce(tensor, op=hvd.Sum, name="eager")  # noqa: E731
        return {"at once": (eager, 1), "in a graph": (lambda: chain(tensor), CHAIN)}


# --- JAX ------------------------------------------------------------------------------------------------------------


class Jax:
    """Trains with `ronde.jax`; `own` by sharding the batch over all processes."""

    def __init__(self, peer):
        import jax

        self.jax, self.peer = jax, peer
        if peer == "own":
            jax.config.update("jax_cpu_collectives_implementation", "gloo")
            rank = int(os.environ["HOROVOD_RANK"])
            jax.distributed.initialize(address(0), num_processes=RANKS, process_id=rank)
        elif peer == "ronde":
            import ronde.jax as hvd

            self.hvd = hvd
            hvd.init()

    def model(self, name):
        """Parameters, and the loss that they give."""
        jax = self.jax
        jnp, lax = jax.numpy, jax.lax
        normal = lambda number, *shape: 0.02 * jax.random.normal(jax.random.PRNGKey(number), shape)  # noqa: E731

        def cnn(parameters, x):
            first, second, *dense = parameters
            for kernel in (first, second):
                x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")))
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            return mlp(dense, x.reshape(x.shape[0], -1))

        def mlp(parameters, x):
            for number in range(0, len(parameters), 2):
                x = x @ parameters[number] + parameters[number + 1]
                x = jax.nn.relu(x) if number < len(parameters) - 2 else x
            return x

        def dense(*sizes):
            pairs = [(normal(number, *pair), jnp.zeros(pair[1])) for number, pair in enumerate(zip(sizes, sizes[1:]))]
            return [each for pair in pairs for each in pair]

        if name == "small CNN":
            parameters, forward = [normal(8, 3, 3, 1, 16), normal(9, 3, 3, 16, 32), *dense(32 * 12 * 12, 64, 10)], cnn
        else:
            parameters, forward = dense(4096, 4096, 4096, 4096, 10), mlp

        def loss(parameters, x, y):
            scores = jax.nn.log_softmax(forward(parameters, x))
            return -jnp.mean(jnp.take_along_axis(scores, y[:, None], axis=1))

        return parameters, loss

    def step(self, name):
        jax = self.jax
        parameters, loss = self.model(name)
        x, y = shapes(name)
        if self.peer == "own":
            mesh = jax.sharding.Mesh(jax.devices(), "ranks")
            spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("ranks"))
            everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
            x, y = (jax.make_array_from_process_local_data(spread, each) for each in (x, y))
            whole = lambda each: jax.make_array_from_process_local_data(everywhere, jax.device_get(each))  # noqa: E731
            parameters = jax.tree.map(whole, parameters)

        def train(parameters, x, y):
            value, gradients = jax.value_and_grad(loss)(parameters, x, y)
            if self.peer == "ronde":
                gradients = self.hvd.pmean(gradients)
            return [each - 0.01 * change for each, change in zip(parameters, gradients)], value

        train = jax.jit(train, donate_argnums=0)
        state = [parameters]

        def step():
            state[0], value = train(state[0], x, y)
            jax.block_until_ready(state[0])
            return value

        return step

    def sums(self, size):
        jax, hvd = self.jax, self.hvd
        tensor = jax.numpy.zeros([size // 4])

        @jax.jit
        def chain(tensor):
            for number in range(CHAIN):
                tensor = hvd.allreduce(tensor, op=hvd.Sum, name=f"chain {number}")
            return tensor

        once = jax.jit(lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, name="once"))
        return {
            "at once": (lambda: once(tensor).block_until_ready(), 1),
            "in a graph": (lambda: chain(tensor).block_until_ready(), CHAIN),
        }


FRAMEWORKS = {"tensorflow": TensorFlow, "jax": Jax}
OWN = {"tensorflow": "MultiWorkerMirrored", "jax": "jax.distributed"}


# --- what a rank measures -------------------------------------------------------------------------------------------


def measure_training(framework, peer):
    """By model: samples per second of a rank; and the memory of it all in megabytes."""
    runner, found = FRAMEWORKS[framework](peer), {}
    for name, steps in STEPS.items():
        step, times = runner.step(name), []
        for _ in range(steps):
            begun = time.perf_counter()
            step()
            times.append(time.perf_counter() - begun)
        found[name] = BATCH / statistics.median(times[5:])
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def measure_sums(framework, max_bytes):
    """By size and way: the seconds that one sum takes."""
    import numpy as np
    import ronde.numpy as collective

    runner, found = FRAMEWORKS[framework]("ronde"), {}
    size = 1024
    while size <= max_bytes:
        # Not zeros, which NumPy never writes: all of their pages are one, and it is always in the cache.
        array = np.ones(size // 4, np.float32)
        numpy = lambda: collective.allreduce(array, op=collective.Sum, name="numpy")  # noqa: E731
        found[size] = {way: seconds(act) / count for way, (act, count) in {"NumPy": (numpy, 1), **runner.sums(size)}.items()}
        size *= 4
    return found


def seconds(act):
    """The median of one call; all ranks call equally often."""
    import ronde.numpy as collective
    import numpy as np

    for _ in range(3):
        act()
    begun = time.perf_counter()
    act()
    turns = np.array([SECONDS_PER_SIZE / (time.perf_counter() - begun)])
    turns = int(collective.allreduce(turns, op=collective.Min, name="turns")[0])
    times = []
    for _ in range(max(TURNS_MIN, min(TURNS_MAX, turns))):
        begun = time.perf_counter()
        act()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


# --- starting ranks -------------------------------------------------------------------------------------------------


def free_ports():
    """The first of as many free ports as there are ranks, one after the other."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def start(*words):
    """What the ranks found, one after the other."""
    port = free_ports()
    environment = dict(os.environ, **QUIET, OMP_NUM_THREADS="1", HOROVOD_SIZE=str(RANKS), BENCH_PORT=str(port))
    environment.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(RANKS))
    environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    workers = [f"127.0.0.1:{port + rank}" for rank in range(RANKS)]
    processes = []
    for rank in range(RANKS):
        own = dict(environment, RANK=str(rank), HOROVOD_RANK=str(rank))
        if "own" in words:
            own["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})
        command = [sys.executable, os.path.abspath(__file__), "--rank", *map(str, words)]
        processes.append(subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    try:
        outputs = [process.communicate(timeout=RANK_SECONDS_MAX) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs):
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: {errors.strip()[-2000:]}")
    return [json.loads(output.strip().splitlines()[-1]) for output, _ in outputs]


# --- tables ---------------------------------------------------------------------------------------------------------


def section_training(framework, args):
    peers, turns = ["ronde", "own", "alone"], {}
    for turn in range(args.turns):
        for peer in peers if turn % 2 == 0 else peers[::-1]:
            turns.setdefault(peer, []).extend(start("training", framework, peer))
    found = {peer: {row: statistics.median(each[row] for each in own) for row in own[0]} for peer, own in turns.items()}
    print(f"\ntraining with {framework}, {RANKS} ranks: samples per second together, share of a step that is communication")
    print(f"{'':<14}{'ronde':>20}{OWN[framework]:>26}{'ratio':>10}")
    for model in STEPS:
        cells = []
        for peer in ("ronde", "own"):
            share = 1 - found[peer][model] / found["alone"][model]
            cells.append(f"{RANKS * found[peer][model]:.0f} /s {max(share, 0) * 100:.0f} %")
        ratio = found["ronde"][model] / found["own"][model]
        print(f"{model:<14}{cells[0]:>20}{cells[1]:>26}{ratio:>9.2f}×")
    memory = [found[peer]["memory"] for peer in ("ronde", "own")]
    print(f"{'memory, a rank':<14}{memory[0]:>17.0f} MB{memory[1]:>23.0f} MB{memory[1] / memory[0]:>9.2f}×", flush=True)


def section_sums(framework, args):
    ranks = start("sums", framework, args.max_megabytes << 20)
    ways = list(next(iter(ranks[0].values())))
    print(f"\nallreduce through {framework}, {RANKS} ranks: one sum, beside NumPy")
    print(f"{'':<10}" + "".join(f"{way:>14}{'':>12}" for way in ways))
    for size in ranks[0]:
        times = {way: max(rank[size][way] for rank in ranks) * 1e6 for way in ways}
        shown = int(size) // 1024
        line = f"{f'{shown} KB' if shown < 1024 else f'{shown // 1024} MB':<10}"
        for way in ways:
            more = "" if way == "NumPy" else f"{times[way] - times['NumPy']:+.1f} µs"
            line += f"{times[way]:>11.1f} µs{more:>12}"
        print(line, flush=True)


def section_import(framework, args):
    """How long the import takes beyond the framework's own."""
    if framework == "tensorflow":
        # Part of TensorFlow, which loads it at its first use.
        own, ours = "import tensorflow, keras", "import horovod.tensorflow"
    else:
        own, ours = "import jax, optax", "import ronde.jax"
    clock = f"import time; {own}; begun = time.perf_counter(); {ours}; print(time.perf_counter() - begun)"
    environment = dict(os.environ, **QUIET)
    times = []
    for _ in range(max(args.turns, 3)):
        told = subprocess.run([sys.executable, "-c", clock], env=environment, capture_output=True, text=True, check=True)
        times.append(float(told.stdout.splitlines()[-1]))
    print(f"\n{ours} takes {statistics.median(times):.3f} s after {own}", flush=True)


SECTIONS = {"import": section_import, "sums": section_sums, "training": section_training}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SECTIONS, action="append")
    parser.add_argument("--max-megabytes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3, help="of every peer")
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        task, framework, word = args.rank
        found = measure_sums(framework, int(word)) if task == "sums" else measure_training(framework, word)
        print(json.dumps(found), flush=True)
        return
    for framework in FRAMEWORKS:
        if importlib.util.find_spec(framework) is None:
            continue
        for name in args.only or SECTIONS:
            SECTIONS[name](framework, args)


if __name__ == "__main__":
    main()
