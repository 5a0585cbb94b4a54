"""Elastic jobs: trainings that lose ranks and get new ones must come to the same result."""

import os
import re
import subprocess
import sys

import pytest

# Says its process before it does anything else.
WITH_PID = "import os, runpy, sys; print('pid', os.getpid(), flush=True); sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"


def test_a_training_with_numpy_comes_to_the_same_result(job, examples, tmp_path):
    script, stop = examples / "numpy_elastic.py", tmp_path / "stop"
    program = ("-c", WITH_PID, script, "--steps", "1000000", "--until", stop, "--pause", "0.01", "--print-every", "1")
    run = job(["localhost:2"], "-np 2 --min-np 1 --max-np 3", *program)
    seen = run.wait_for(r"ring \d+: 2 ranks")
    # So the one that is left has something to go on from.
    seen = run.wait_for(r"\[1\]<stdout>:Step #\d\d", after=seen)
    run.kill(0)
    run.wait_for(r"ring \d+: \d rank", after=seen)
    run.set_hosts(["localhost:2", "127.0.0.2:1"])
    seen = run.wait_for(r"\[2\]<stdout>:Step #")
    run.set_hosts(["localhost:2"])
    seen = run.wait_for(r"ring \d+: \d rank", after=seen)
    run.wait_for(r"Step #", after=seen)
    stop.touch()
    assert run.end() == 0, run
    told = [line.split(":", 1)[1] for line in run.lines if "samples: " in line]
    assert len(told) == 1, run
    alone = subprocess.run(
        [sys.executable, str(script), "--steps", re.match(r"steps: (\d+),", told[0]).group(1)],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert told == [alone.stdout.splitlines()[-1]], run


COUNTING = """
import os, sys, time
print("pid", os.getpid(), flush=True)
import torch
import horovod.torch as hvd

hvd.init()
data = torch.arange(401)
sampler = hvd.elastic.ElasticSampler(data, shuffle=True)
model = torch.nn.Linear(1, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters())
state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, seen=[], is_last=False)

@hvd.elastic.run
def train(state):
    while not state.is_last:
        loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=state.sampler)
        for number, batch in enumerate(loader):
            state.optimizer.zero_grad()
            state.model(batch.float().unsqueeze(1)).sum().backward()
            state.optimizer.step()
            everybody = hvd.allgather(batch, name="batch").tolist()
            state.seen = state.seen + [(state.epoch, sample) for sample in everybody]
            state.sampler.record_batch(number, 4)
            print("batch", len(state.seen), "of", hvd.size(), flush=True)
            time.sleep(0.02)
            state.commit()
        state.epoch += 1
        state.is_last = hvd.broadcast_object(os.path.exists(sys.argv[1]), name="is_last")
        state.sampler.set_epoch(state.epoch)
        state.commit()

train(state)
if hvd.rank() == 0:
    for epoch in range(state.epoch):
        seen = [sample for each, sample in state.seen if each == epoch]
        print(f"epoch {epoch}: {len(set(seen))} samples, {len(seen) - len(set(seen))} twice", flush=True)
"""


def test_no_sample_is_lost_and_none_is_repeated(job, tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "count.py"
    script.write_text(COUNTING)
    stop = tmp_path / "stop"
    run = job(["localhost:2"], "-np 2 --min-np 1 --max-np 3", script, stop)
    run.wait_for(r"batch \d+ of 2")
    run.set_hosts(["localhost:2", "127.0.0.2:1"])
    seen = run.wait_for(r"batch \d+ of 3")
    run.kill(1)
    seen = run.wait_for(r"batch \d+ of 2", after=seen)
    run.set_hosts(["localhost:2"])
    stop.touch()
    assert run.end() == 0, run
    epochs = [line for line in run.lines if " samples, " in line]
    assert epochs, run
    for line in epochs:
        samples, twice = map(int, re.search(r": (\d+) samples, (\d+) twice", line).groups())
        # The last batch of an epoch is filled up so that all ranks have as many.
        assert samples == 401 and twice < 3, line


def test_a_commit_is_a_copy_of_its_own(ring):
    pytest.importorskip("torch")

    def body():
        import copy

        import torch

        import horovod.torch as hvd

        hvd.init()
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters())
        state = hvd.elastic.TorchState(model, optimizer, step=0)

        def train():
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().sum().backward()
            optimizer.step()
            state.step += 1

        for steps in range(1, 4):
            train()
            state.commit()
            committed = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
            train()
            state.restore()
            assert state.step == steps
            for kept, now in zip(committed, (model.state_dict(), optimizer.state_dict()["state"])):
                assert kept.keys() == now.keys()
                for key, value in kept.items():
                    if torch.is_tensor(value):
                        assert torch.equal(value, now[key]), key
                    else:
                        assert all(torch.equal(torch.as_tensor(value[part]), torch.as_tensor(now[key][part])) for part in value)

    ring(1).run(body)


def test_digits_are_learned_by_workers_that_come_and_go(job, examples):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    run = job(["localhost:1"], "-np 1 --max-np 2", examples / "pytorch_mnist_elastic.py", "--epochs", "6")
    run.wait_for("epoch 1:")
    run.set_hosts(["localhost:1", "127.0.0.2:1"])
    assert run.end() == 0, run
    accuracy = float(re.search(r"accuracy: ([\d.]+)%", str(run)).group(1))
    assert accuracy > 80, run


def test_a_mismatch_of_shapes_ends_the_job(job, tmp_path):
    script = tmp_path / "wrong.py"
    script.write_text(
        "import numpy, ronde\n"
        "from ronde import elastic, numpy as hvd\n"
        "ronde.init()\n"
        "@elastic.run\n"
        "def train(state):\n"
        "    hvd.allreduce(numpy.zeros(ronde.rank() + 1), name='wrong')\n"
        "train(elastic.ArrayState(step=0))\n"
    )
    run = job(["localhost:2"], "-np 2", script)
    assert run.end() == 1, run
    assert "all ranks failed by themselves" in str(run)
    assert "MismatchError" in str(run)
