"""Tensors of a device through the device's own backend: Gloo on the CPU stands for NCCL on a GPU."""

import contextlib
import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture(autouse=True)
def gloo(monkeypatch):
    monkeypatch.setenv("RONDE_DEVICE_BACKENDS", "cpu:gloo")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_random_operations_give_what_follows_from_the_inputs_of_all(ring, size):
    def body():
        import random

        import horovod.torch as hvd
        import torch

        hvd.init(process_sets="dynamic")
        rank, size = hvd.rank(), hvd.size()
        sets = [hvd.global_process_set]
        if size > 2:
            sets += [hvd.add_process_set([0, 2]), hvd.add_process_set([1, 2])]
        ops = {hvd.Sum: sum, hvd.Average: sum, hvd.Min: lambda all: torch.stack(all).amin(0)}
        ops[hvd.Max] = lambda all: torch.stack(all).amax(0)
        ops[hvd.Product] = lambda all: torch.stack(all).prod(0)
        types = [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64]

        def draw(shape, dtype, *key):
            numbers = torch.Generator().manual_seed(hash(key) % 2**31)
            return torch.randint(1, 4, shape, generator=numbers).to(dtype)

        def operation(number):
            """What this rank asks for, and what it must get."""
            chance = random.Random(number)
            where = chance.choice(sets)
            dtype, row = chance.choice(types), [chance.randint(0, 3) for _ in range(chance.randint(0, 2))]
            kind = chance.choice("allreduce grouped broadcast allgather alltoall reducescatter".split())
            count, is_in_place = chance.randint(1, 3), chance.random() < 0.5
            me, members = where.ranks.index(rank) if rank in where.ranks else None, where.ranks
            before = chance.choice([1.0, 1.0, 2.0])
            rows = [chance.randint(0, 4) for _ in members]
            cuts = [[chance.randint(0, 3) for _ in members] for _ in members]
            op, root = chance.choice(list(ops)), chance.choice(members)
            if me is None:
                return None
            name = f"operation {number}"

            def of_all(shape, *more):
                return [draw(shape, dtype, number, member, *more) for member in members]

            def reduced(tensors, op):
                result = ops[op]([(each.double() * before) for each in tensors])
                return (result / len(members) if op == hvd.Average else result).to(dtype)

            if kind in ("allreduce", "grouped"):
                shapes = [[chance.randint(0, 3), *row] for _ in range(count if kind == "grouped" else 1)]
                inputs = [of_all(shape, which) for which, shape in enumerate(shapes)]
                own = [each[me].clone() for each in inputs]
                wanted = [reduced(each, op) for each in inputs]
                if kind == "grouped":
                    ask = hvd.grouped_allreduce_async_ if is_in_place else hvd.grouped_allreduce_async
                    return ask(own, name=name, op=op, prescale_factor=before, process_set=where), wanted
                ask = hvd.allreduce_async_ if is_in_place else hvd.allreduce_async
                return ask(own[0], name=name, op=op, prescale_factor=before, process_set=where), wanted
            if kind == "broadcast":
                inputs = of_all([2, *row])
                ask = hvd.broadcast_async_ if is_in_place else hvd.broadcast_async
                return ask(inputs[me].clone(), root, name, where), [inputs[members.index(root)]]
            if kind == "allgather":
                inputs = [draw([count, *row], dtype, number, member) for count, member in zip(rows, members)]
                return hvd.allgather_async(inputs[me], name, where), [torch.cat(inputs)]
            if kind == "alltoall":
                inputs = [draw([sum(cut) + 1, *row], dtype, number, member) for cut, member in zip(cuts, members)]
                parts = [each[:-1].split(cut)[me] for each, cut in zip(inputs, cuts)]
                handle = hvd.alltoall_async(inputs[me], torch.tensor(cuts[me], dtype=torch.int32), name, where)
                return handle, (torch.cat(parts), [cut[me] for cut in cuts])
            inputs = of_all([rows[0], *row])
            each, more = divmod(rows[0], len(members))
            whole = reduced(inputs, hvd.Sum)
            share = whole.split([each + (member < more) for member in range(len(members))])[me]
            handle = hvd.reducescatter_async(inputs[me], name, hvd.Sum, where, prescale_factor=before)
            return handle, [share]

        done = 0
        for batch in range(12):
            numbers = list(range(batch * 20, batch * 20 + 20))
            random.Random(f"{rank} {batch}").shuffle(numbers)
            flights = {number: operation(number) for number in numbers}
            random.Random(f"{batch} {rank}").shuffle(numbers)
            for number in numbers:
                if flights[number] is None:
                    continue
                handle, wanted = flights[number]
                result = hvd.synchronize(handle)
                done += 1
                if isinstance(wanted, tuple):
                    assert result[1].tolist() == wanted[1], number
                    result, wanted = result[0], [wanted[0]]
                for one, other in zip(result if isinstance(result, list) else [result], wanted):
                    assert one.dtype == other.dtype and one.shape == other.shape, (number, one, other)
                    assert torch.allclose(one.double(), other.double(), rtol=1e-2), (number, one, other)
        counted = hvd.metrics()
        assert counted["on_devices"] == done > 100, (counted, done)
        assert size == 1 or counted["fused"] > 0, counted

    ring(size).run(body, PYTHONHASHSEED="0")


def test_a_join_and_adasum_on_devices(ring):
    def body():
        import horovod.torch as hvd
        import torch

        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        # A rank that has had no tensor yet takes part in what the others do.
        for step in range(rank * 3):
            handles = [hvd.allreduce_async(torch.ones(3), name=f"{step}.{each}", op=hvd.Sum) for each in range(4)]
            for handle in handles:
                present = torch.full((3,), float(size - 1 - step // 3))
                assert torch.equal(hvd.synchronize(handle), present), step
            lowest = hvd.allreduce(torch.tensor([rank + 1.0]), name=f"{step}.min", op=hvd.Min)
            assert lowest.item() == 2 + step // 3
        assert hvd.join() == size - 1
        before = hvd.metrics()["on_devices"]
        vectors = [torch.tensor([1.0, 2.0, 0.0, each]) for each in range(size)]

        def join(a, b):
            dot = (a * b).sum()
            return a * (1 - dot / (2 * (a * a).sum())) + b * (1 - dot / (2 * (b * b).sum()))

        wanted = join(join(vectors[0], vectors[1]), vectors[2])
        assert torch.allclose(hvd.allreduce(vectors[rank], name="adasum", op=hvd.Adasum), wanted)
        assert hvd.metrics()["on_devices"] == before + 1

    ring(3).run(body)


def test_what_gloo_does_not_know_goes_through_the_engine(ring):
    def body():
        import horovod.torch as hvd
        import torch

        hvd.init()
        for dtype in (torch.bfloat16, torch.int16, torch.bool):
            assert hvd.allgather(torch.ones(2, dtype=dtype)).dtype == dtype
        hvd.barrier()
        assert hvd.broadcast_object({"rank": hvd.rank()}, 1) == {"rank": 1}
        assert hvd.metrics()["on_devices"] == 0
        sparse = torch.eye(2).to_sparse()
        try:
            hvd.allreduce(sparse)
        except ValueError as error:
            assert "is not supported" in str(error)
        else:
            raise AssertionError("a sparse tensor was reduced as a dense one")

    ring(2).run(body)


def test_disagreements_are_told_and_the_ring_goes_on(ring):
    def body():
        import horovod.torch as hvd
        import torch
        from ronde.torch import _devices

        hvd.init()
        for number in range(3):
            try:
                hvd.allreduce(torch.ones(2 + hvd.rank()), name="x")
            except hvd.HorovodInternalError as error:
                assert "Mismatched ALLREDUCE tensor shapes" in str(error), error
            else:
                raise AssertionError("tensors of different sizes were reduced")
        try:
            hvd.allreduce(torch.ones(2, dtype=torch.int16 if hvd.rank() else torch.float32), name="y")
        except hvd.HorovodInternalError as error:
            assert "Mismatched" in str(error), error
        assert torch.equal(hvd.allreduce(torch.ones(2), op=hvd.Sum), torch.full((2,), 2.0))
        assert not _devices.lane(0).operations, "what was refused is kept"

    ring(2).run(body)


def test_rings_are_formed_again_and_their_threads_end(ring):
    def body():
        import threading

        import horovod.torch as hvd
        import torch

        for number in range(4):
            hvd.init(process_sets="dynamic")
            for _ in range(2):
                # The number of the first is used again.
                pair = hvd.add_process_set([0, 1])
                if hvd.rank() < 2:
                    assert hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=pair).tolist() == [2, 2]
                hvd.remove_process_set(pair)
            assert hvd.allreduce(torch.ones(2), name="all", op=hvd.Sum).tolist() == [3, 3]
            if number % 2:
                # In flight, and never waited for: nobody else asks for it.
                hvd.allreduce_async(torch.ones(2), name=f"of {hvd.rank()}")
            hvd.shutdown()
            left = [each.name for each in threading.enumerate() if each.name.startswith("ronde-devices")]
            assert not left, left

    ring(3).run(body)


@pytest.mark.parametrize("how", ["fails", "dies"])
def test_a_rank_that_fails_or_dies_in_the_middle_ends_the_others_at_once(ring, how, tmp_path):
    def body():
        import signal
        import time

        import horovod.torch as hvd
        import torch
        from ronde.torch import _collectives

        hvd.init()
        hvd.allreduce(torch.ones(2), name="warm")
        if hvd.rank() == 1:

            def broken(self, tensor, op):
                if os.environ["HOW"] == "dies":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("out of memory")

            _collectives.Members.allreduce = broken
        hvd.barrier()
        begun = time.monotonic()
        try:
            hvd.allreduce(torch.ones(1 << 20), name="big")
        except hvd.HorovodInternalError as error:
            took = time.monotonic() - begun
            print(f"after {took:.3f} s: {error}")
            # A busy machine takes some seconds; whoever only gives up takes half an hour.
            assert took < 60, took
        else:
            raise AssertionError("it was reduced without one of the ranks")
        # One that has heard and leaves is lost, too.
        open(os.environ["TOLD"] + str(hvd.rank()), "w").close()
        while not all(os.path.exists(os.environ["TOLD"] + rank) for rank in os.environ["LEFT"].split()):
            time.sleep(0.01)
        hvd.shutdown()

    left = "0 2" if how == "dies" else "0 1 2"
    results = ring(3).run(body, check=False, HOW=how, TOLD=str(tmp_path / "told"), LEFT=left)
    codes, outputs = zip(*results)
    said = "\n".join(f"rank {rank}: {output}" for rank, output in enumerate(outputs))
    assert codes == ((0, -9, 0) if how == "dies" else (0, 0, 0)), said
    if how == "fails":
        assert "lost rank 1" in outputs[0] and "lost rank 1" in outputs[2], said
        assert "gloo: out of memory" in outputs[1], said
    else:
        # Gloo hears of it before the process is gone; on a busy machine long before.
        assert re.search("lost rank|gloo", outputs[0]) and re.search("lost rank|gloo", outputs[2]), said


def test_a_training_goes_on_when_a_worker_dies(job, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        """
import os, sys, time
print("pid", os.getpid(), flush=True)
import horovod.torch as hvd
import torch

hvd.init()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())

@hvd.elastic.run
def train(state):
    while state.step < 400 and not state.is_last:
        optimizer.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        state.step += 1
        # Three of the first ring, and enough of the next: the test has seen both by then.
        state.seen[hvd.size()] = state.seen.get(hvd.size(), 0) + 1
        state.is_last = state.seen.get(1, 0) > 20
        print(f"step {state.step} of {hvd.size()}", flush=True)
        time.sleep(0.02)
        state.commit()
    assert hvd.metrics()["on_devices"] > 20
    print(f"end of {hvd.rank()}", flush=True)

train(hvd.elastic.TorchState(model, optimizer, step=0, is_last=False, seen={}))
"""
    )
    running = job(["127.0.0.1:2"], "-np 2 --min-np 1 --max-np 2", script)
    running.wait_for(r"<stdout>:step \d+ of 2")
    running.set_hosts(["127.0.0.1:1"])
    running.kill(1)
    running.wait_for(r"<stdout>:step \d+ of 1")
    assert running.end() == 0, running
    assert any(re.search("end of 0", line) for line in running.lines), running


def test_settings_that_make_no_sense_are_told(ring):
    def body():
        import horovod.torch as hvd
        import torch

        os.environ["RONDE_DEVICE_BACKENDS"] = "nccl"
        try:
            hvd.init()
        except ValueError as error:
            assert str(error) == "RONDE_DEVICE_BACKENDS: `nccl` is no device with its backend, as in cuda:nccl"
        else:
            raise AssertionError("it was taken")
        os.environ["RONDE_DEVICE_BACKENDS"] = "cpu:nonsense"
        hvd.init()
        try:
            hvd.allreduce(torch.ones(2))
        except hvd.HorovodInternalError as error:
            assert str(error) == "nonsense: PyTorch knows no backend nonsense", error
        else:
            raise AssertionError("it was reduced")
        hvd.shutdown()
        os.environ["RONDE_DEVICE_BACKENDS"] = "cpu:host"
        hvd.init()
        assert hvd.allreduce(torch.ones(2)).tolist() == [1, 1] and hvd.metrics()["on_devices"] == 0

    ring(1).run(body)


class _FakeDevice:
    """A device that notes what is queued where."""

    def __init__(self):
        self.log = []
        self.Event, self.Stream = self.make_event, lambda device: _FakeStream("own", self.log)
        self.users = _FakeStream("user's", self.log)

    def make_event(self):
        return _FakeEvent(self.log)

    def current_stream(self, device):
        return self.users

    def device(self, device):
        return self.stream(None)

    def stream(self, stream):
        return contextlib.nullcontext()


class _FakeStream:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def wait_event(self, event):
        self.log.append(f"{self.name} waits for {event.name}")


class _FakeEvent:
    def __init__(self, log):
        self.log, self.name = log, None

    def record(self, stream):
        self.name = f"{stream.name} work"
        self.log.append(f"{self.name} noted")


class _FakeTensor:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def record_stream(self, stream):
        self.log.append(f"{self.name} kept for {stream.name}")


def test_streams_wait_for_each_other_and_the_host_for_nothing():
    from ronde.torch._devices import Streams

    class Operation:
        pass

    fake = _FakeDevice()
    order, operation = Streams("fake:0", fake), Operation()
    operation.staged = [_FakeTensor("input", fake.log)]
    operation.ready = order.ready()
    with order.beside([operation]):
        fake.log.append("reduce")
    order.follow(operation, [_FakeTensor("result", fake.log)])
    assert fake.log == [
        "user's work noted",
        "own waits for user's work",
        "input kept for own",
        "reduce",
        "own work noted",
        "user's waits for own work",
        "result kept for user's",
    ]
