"""Elastic training with torch.distributed: groups, DDP and FSDP2 in processes that go on when others come, go or die."""

import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
    pytest.skip("FSDP2 needs PyTorch 2.6", allow_module_level=True)

# Each step has the same samples, whoever computes them: so the result is that of one process with as many steps.
TRAINING = """
import os, sys, time
print("pid", os.getpid(), flush=True)
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from ronde.torch import elastic

WHAT, STOP = sys.argv[1:]

def plain():
    # Rows that no number of ranks divides.
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3)).double()

def build(what=WHAT):
    torch.manual_seed(0)
    model = plain()
    if what == "ddp":
        model = DistributedDataParallel(model)
    elif what == "fsdp2":
        for layer in (model[0], model[2], model):
            fully_shard(layer)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler}

def step(number, rank, size, model, optimizer, scheduler):
    data = torch.randn(12, 5, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
    optimizer.zero_grad()
    (model(data[rank::size]) - 1).square().mean().backward()
    optimizer.step()
    scheduler.step()

@elastic.run
def train(state):
    while not state.is_last:
        rank, size = dist.get_rank(), dist.get_world_size()
        step(state.step, rank, size, state.model, state.optimizer, state.scheduler)
        state.step += 1
        is_last = torch.tensor(os.path.exists(STOP))
        dist.broadcast(is_last, 0)
        state.is_last = bool(is_last)
        print(f"step {state.step} of {size}", flush=True)
        time.sleep(0.01)
        state.commit()

state = elastic.DistributedState(build, step=0, is_last=False)
state.register_reset_callbacks([lambda: print("reset with", type(state.model).__name__, flush=True)])
train(state)
found = state.model.state_dict()
found = [each.full_tensor() if isinstance(each, DTensor) else each for each in found.values()]
alone = build("alone")
for number in range(state.step):
    step(number, 0, 1, **alone)
wanted = alone["model"].state_dict().values()
assert all(torch.allclose(one, other, atol=1e-9) for one, other in zip(found, wanted)), (found, list(wanted))
print("as alone after", state.step, "steps", flush=True)
"""


@pytest.mark.parametrize("what", ["ddp", "fsdp2"])
def test_a_training_whose_workers_die_come_and_go_ends_as_that_of_one_process(job, tmp_path, what):
    script, stop = tmp_path / "train.py", tmp_path / "stop"
    script.write_text(TRAINING)
    run = job(["localhost:2"], "-np 2 --min-np 1 --max-np 4", script, what, stop)
    run.wait_for(r"\[1\]<stdout>:step \d\d of 2")
    run.kill(0)
    # It is started again, with what the other one has.
    seen = run.wait_for(r"\[0\]<stdout>:pid", after=len(run.lines))
    seen = run.wait_for(r"\[0\]<stdout>:step \d+ of 2", after=seen)
    run.set_hosts(["localhost:2", "127.0.0.2:2"])
    seen = run.wait_for(r"\[1\]<stdout>:step \d+ of 4", after=seen)
    # A rank in the middle, then two by plan, perhaps the owner of a shard and its partner.
    run.kill(2)
    seen = run.wait_for(r"ring \d+: \d rank", after=seen)
    seen = run.wait_for(r"\[1\]<stdout>:step", after=seen)
    run.set_hosts(["localhost:2"])
    run.wait_for(r"\[1\]<stdout>:step \d+ of 2", after=seen)
    stop.touch()
    assert run.end() == 0, run
    assert len([line for line in run.lines if line.endswith(" steps")]) == 2, run
    assert len([line for line in run.lines if re.match(r"\[1\]<stdout>:pid", line)]) == 1, "the survivor was restarted"
    assert "reset with " + {"ddp": "DistributedDataParallel", "fsdp2": "FSDPSequential"}[what] in str(run), run


def test_shards_are_handed_over_when_all_hosts_are_replaced_at_once(job, tmp_path):
    script, stop = tmp_path / "train.py", tmp_path / "stop"
    script.write_text(TRAINING)
    run = job(["localhost:2", "127.0.0.2:1"], "-np 3 --min-np 1 --max-np 3", script, "fsdp2", stop)
    seen = run.wait_for(r"step \d\d of 3")
    # Owners and their partners go together; one stays until the new one has everything.
    run.set_hosts(["127.0.0.3:1"])
    run.wait_for(r"step \d+ of 1$", after=seen)
    stop.touch()
    assert run.end() == 0, run
    assert len([line for line in run.lines if re.match(r"\[3\]<stdout>:as alone after", line)]) == 1, run


@pytest.mark.parametrize("example", ["pytorch_ddp_elastic.py", "pytorch_fsdp2_elastic.py"])
def test_examples_learn_while_workers_come(job, examples, example):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    run = job(["localhost:1"], "-np 1 --max-np 2", examples / example, "--epochs", "12")
    run.wait_for("epoch 1: ranks 1")
    run.set_hosts(["localhost:1", "127.0.0.2:1"])
    assert run.end() == 0, run
    accuracy = float(re.search(r"accuracy: ([\d.]+)", str(run)).group(1))
    assert accuracy > 0.9, run


def test_a_script_that_is_not_written_for_it_trains_under_an_elastic_launcher(job, examples):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    run = job(["localhost:2"], "-np 2 --min-np 2", examples / "pytorch_ddp.py")
    assert run.end() == 0, run
    assert re.search(r"epoch 5: accuracy 0\.[89]\d+ on 2 ranks", str(run)), run


def test_the_newest_commit_that_is_whole_is_taken():
    from ronde.torch.elastic._commit import Summary, newest

    def told(*ranks):
        return [[Summary(key, size, dict.fromkeys(owners)) for key, size, owners in commits] for commits in ranks]

    assert newest(told([], [])) is None
    # What all have alike needs only somebody who has it.
    assert newest(told([], [((3, 1), 0, [])], [((4, 1), 0, [])])) == (4, 1)
    # Rank 1 died in the middle of commit 5: nobody has its pieces, but everybody those of commit 4.
    before = [((4, 1), 3, [0, 2]), ((4, 1), 3, [0, 1]), ((4, 1), 3, [1, 2])]
    assert newest(told([before[0], ((5, 1), 3, [0, 2])], [before[2]])) == (4, 1)
    # It died after it had given them away.
    assert newest(told([before[0], ((5, 1), 3, [0, 2])], [before[2], ((5, 1), 3, [1, 2])])) == (5, 1)
    with pytest.raises(ValueError, match="the shards of ranks 1, 2 are lost"):
        newest(told([((4, 1), 3, [0])], []))


def test_pieces_are_kept_on_other_hosts_and_by_those_who_stay():
    from ronde.torch.elastic._commit import Place, partners, partners_before_leaving

    def places(*hosts):
        found = []
        for rank, host in enumerate(hosts):
            found.append(Place(host, sum(each.host == host for each in found), 10 - rank))
        return found

    assert partners(places("a", "a", "b")) == [[2], [2], [0]]
    assert partners(places("a", "b", "a", "b")) == [[1], [2], [3], [0]]
    assert partners(places("a", "a", "a")) == [[1], [2], [0]]
    assert partners(places("a")) == [[]]
    # The first rank of each host, and the oldest worker.
    assert partners_before_leaving(places("a", "a", "b", "b")) == [[2, 3], [0, 2, 3], [0, 3], [0, 2]]
