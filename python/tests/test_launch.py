"""The launcher's commands and `horovod.run`, with the program that the wheel brings."""

import os
import subprocess
import sys
import sysconfig
import time

import pytest

HOROVODRUN = os.path.join(sysconfig.get_path("scripts"), "horovodrun")
HOROVODRUN = os.environ.get("RONDE_HOROVODRUN", HOROVODRUN)
TIMEOUT_SECONDS = 120


def horovodrun(*words, **options):
    done = subprocess.run([HOROVODRUN, *words], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, **options)
    return done.returncode, done.stdout, done.stderr


def test_ranks_of_the_command_reduce_together(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy, ronde, ronde.numpy\n"
        "ronde.init()\n"
        "total = ronde.numpy.allreduce(numpy.arange(4.0) + ronde.rank(), op=ronde.Sum)\n"
        "print(ronde.rank(), ronde.size(), ronde.local_rank(), total.tolist())\n"
    )
    code, out, err = horovodrun("-np", "4", sys.executable, str(script))
    assert code == 0, err
    expected = [f"[{rank}]<stdout>:{rank} 4 {rank} [6.0, 10.0, 14.0, 18.0]" for rank in range(4)]
    assert sorted(out.splitlines()) == expected


def test_interfaces_are_resolved_where_the_rank_is(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import ronde\n"
        "from ronde import _settings\n"
        "ronde.init()\n"
        "ronde.barrier()\n"
        "print(_settings.tuning()['addresses'])\n"
    )
    # Only TCP uses addresses; ranks of one host would not need them.
    environment = dict(os.environ, RONDE_TRANSPORT="tcp")
    code, out, err = horovodrun("-np", "2", "--network-interfaces", "lo", sys.executable, str(script), env=environment)
    assert code == 0, err
    assert len(out.splitlines()) == 2 and all("'127.0.0.1'" in line for line in out.splitlines())


def test_a_rank_that_raises_ends_the_job(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import ronde\nronde.init()\nif ronde.rank() == 1: raise ValueError('odd')\nronde.barrier()")
    code, _, err = horovodrun("-np", "2", sys.executable, str(script))
    assert code == 1
    assert "[1]<stderr>:ValueError: odd" in err
    assert "error: rank " in err


def test_a_function_runs_on_every_rank():
    import horovod

    offset = 10

    def function(base, factor=1):
        import ronde

        ronde.init()
        return [ronde.rank(), ronde.size(), offset + base * factor]

    found = horovod.run(function, args=(2,), kwargs={"factor": 3}, num_proc=3)
    assert found == [[0, 3, 16], [1, 3, 16], [2, 3, 16]]
    assert horovod.run(lambda: "x" * (1 << 20), np=1) == ["x" * (1 << 20)]


def test_a_function_that_raises_is_reported(capfd):
    from horovod.runner import run

    def function():
        if os.environ["HOROVOD_RANK"] == "1":
            raise ValueError("odd one out")
        import time

        time.sleep(600)

    with pytest.raises(RuntimeError) as caught:
        run(function, num_proc=2)
    assert "The first process to do so was:\nProcess name: 1\nExit code: 1\n" in str(caught.value)
    assert "odd one out" in capfd.readouterr().err
    # The user's own frames, the innermost last.
    raised = str(caught.value).partition("\nRank 1 raised:\n\n")[2].splitlines()
    assert raised[-1] == "ValueError: odd one out"
    assert any("in function" in line for line in raised) and not any("_task.py" in line for line in raised)


def test_the_rank_that_raised_first_is_named_whoever_ends_first():
    from horovod.runner import run

    def function():
        import ronde

        ronde.init()
        if ronde.rank() == 1:
            raise ValueError("the root of it")
        ronde.barrier()

    with pytest.raises(RuntimeError, match="(?s)Rank 1 raised:.*ValueError: the root of it"):
        run(function, num_proc=3)


def test_a_result_that_cannot_be_sent_is_reported():
    from horovod.runner import run

    with pytest.raises(RuntimeError, match="(?s)Rank 0 raised:.*pickle"):
        run(lambda: __import__("threading").Lock(), num_proc=1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_proc": 0}, "invalid value '0' for '--num-proc <N>': it must be at least 1"),
        ({"np": 0}, "invalid value '0' for '--num-proc <N>': it must be at least 1"),
        ({"num_proc": -1}, "invalid value '-1' for '--num-proc <N>': not an integer of at least 1"),
        ({"num_proc": 2, "min_np": 0}, "invalid value '0' for '--min-np <N>': it must be at least 1"),
        ({"num_proc": 2, "max_num_proc": 0}, "invalid value '0' for '--max-np <N>': it must be at least 1"),
        ({"num_proc": 2, "min_num_proc": 3}, "-np 2 is less than --min-np 3"),
        ({"num_proc": 4, "max_num_proc": 2}, "-np 4 is more than --max-np 2"),
        ({"num_proc": 3, "hosts": "localhost:2"}, "Requested more processes (3) than there are available slots (2)"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(options, text):
    import horovod

    with pytest.raises(ValueError) as caught:
        horovod.run(lambda: None, **options)
    assert str(caught.value) == text


def program(folder):
    folder.mkdir()
    path = folder / "ronde"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_the_program_is_found_where_pip_and_the_path_have_it(tmp_path, monkeypatch):
    from ronde import _launch

    folders = {name: tmp_path / name for name in ("beside", "scripts", "user", "path")}
    monkeypatch.delenv("RONDE_BINARY", raising=False)
    monkeypatch.setattr(sys, "executable", str(folders["beside"] / "python3"))
    scheme = lambda _, name=None: str(folders["user" if name else "scripts"])  # noqa: E731
    monkeypatch.setattr(_launch.sysconfig, "get_path", scheme)
    monkeypatch.setenv("PATH", f"{tmp_path / 'nothing'}:{folders['path']}")
    with pytest.raises(FileNotFoundError) as caught:
        _launch.binary()
    assert all(f"\n  {folder}" in str(caught.value) for folder in folders.values()), caught.value
    # The last place first: each is looked into before those that have been tried.
    for name in ("path", "user", "scripts", "beside"):
        expected = program(folders[name])
        assert _launch.binary() == expected
    (folders["beside"] / "ronde").chmod(0o644)
    assert _launch.binary() == str(folders["scripts"] / "ronde")
    monkeypatch.setenv("RONDE_BINARY", program(tmp_path / "named"))
    assert _launch.binary() == str(tmp_path / "named" / "ronde")
    monkeypatch.setenv("RONDE_BINARY", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="RONDE_BINARY is"):
        _launch.binary()


@pytest.mark.parametrize("options", ["num_proc=2", "num_proc=2, min_num_proc=2"])
def test_nothing_outlives_a_caller_that_was_killed(tmp_path, options):
    script = tmp_path / "caller.py"
    script.write_text(
        "import os, time\n"
        "import horovod\n"
        "def function():\n"
        f"    open('{tmp_path}/pid.%d' % os.getpid(), 'w').close()\n"
        "    time.sleep(600)\n"
        f"horovod.run(function, {options})\n"
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    caller = subprocess.Popen([sys.executable, str(script)], env=environment)
    try:
        wait_until(lambda: len(list(tmp_path.glob("pid.*"))) == 2)
    finally:
        caller.kill()
        caller.wait()
    ranks = [path.suffix[1:] for path in tmp_path.glob("pid.*")]
    wait_until(lambda: not any(os.path.exists(f"/proc/{rank}/cmdline") for rank in ranks))


def wait_until(condition):
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
