"""Life of a ring: who we are, errors, deaths, starting again, forks, Ctrl-C, process sets, timelines."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from ronde import _settings


@pytest.mark.parametrize(
    ("what", "env", "expected"),
    [
        ("nobody started it", {}, (0, 1, None, None, None)),
        (
            "Horovod's launcher",
            {
                "HOROVOD_RANK": "1",
                "HOROVOD_SIZE": "2",
                "HOROVOD_LOCAL_RANK": "1",
                "HOROVOD_LOCAL_SIZE": "2",
                "HOROVOD_GLOO_RENDEZVOUS_ADDR": "fe80::1",
                "HOROVOD_GLOO_RENDEZVOUS_PORT": "7",
            },
            (1, 2, 1, 2, "[fe80::1]:7"),
        ),
        (
            "torchrun",
            {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "9"},
            (3, 4, 1, None, "a:9"),
        ),
        (
            "Open MPI on several hosts, told where to meet",
            {
                "OMPI_COMM_WORLD_RANK": "0",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "RONDE_RENDEZVOUS": "/shared",
            },
            (0, 4, None, 2, "/shared"),
        ),
        (
            "Slurm",
            {
                "SLURM_PROCID": "2",
                "SLURM_NTASKS": "4",
                "SLURM_LOCALID": "0",
                "SLURM_JOB_ID": "10",
                "SLURM_STEP_NODELIST": "n[03-05,9],m1",
            },
            (2, 4, 0, None, "n03:15310"),
        ),
    ],
)
def test_launchers_are_recognised(what, env, expected):
    found = _settings.place(env)
    assert (found.rank, found.size, found.local_rank, found.local_size, found.rendezvous) == expected, what


def test_nonsense_in_the_environment_is_named():
    with pytest.raises(ValueError, match="HOROVOD_SIZE='two'"):
        _settings.place({"HOROVOD_RANK": "0", "HOROVOD_SIZE": "two"})
    with pytest.raises(ValueError, match="MASTER_ADDR"):
        _settings.place({"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"})


def test_siblings_meet_without_a_launcher_of_ours(tmp_path):
    """As under mpirun on one machine: children of one process, with its variables alone."""
    script = "import ronde, ronde.numpy as rn, numpy as np; ronde.init(); print(rn.allreduce(np.ones(1), op=rn.Sum)[0])"
    ranks = []
    for rank in range(2):
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), TMPDIR=str(tmp_path))
        env.update(
            OMPI_COMM_WORLD_RANK=str(rank),
            OMPI_COMM_WORLD_SIZE="2",
            OMPI_COMM_WORLD_LOCAL_RANK=str(rank),
            OMPI_COMM_WORLD_LOCAL_SIZE="2",
        )
        ranks.append(subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True))
    assert [rank.communicate(timeout=30)[0].strip() for rank in ranks] == ["2.0", "2.0"]
    assert list(tmp_path.iterdir()) == [], "the ranks leave nothing behind"


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="`mpirun` is not installed")
@pytest.mark.parametrize("hidden", ["", "mpi4py"])
def test_ranks_of_mpirun_on_several_hosts_meet_through_mpi(hidden):
    """As if each were alone on its host; with mpi4py if it is there, and with Open MPI's library alone."""
    script = f"""
import os, sys
os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1"
sys.modules.update(dict.fromkeys({hidden.split()}))
import ronde
for _ in range(2):
    ronde.init()
    assert ronde.allgather_object(ronde.rank()) == [0, 1]
    ronde.shutdown()
print("met")
"""
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", sys.executable, "-c", script]
    told = subprocess.run(
        command, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)), capture_output=True, text=True, timeout=60
    )
    assert (told.returncode, told.stdout) == (0, "met\nmet\n"), told.stderr


def test_a_job_without_a_secret_is_told_from_others_by_its_name():
    assert _settings.secret({"RONDE_SECRET": "s", "SLURM_JOB_ID": "7"}) == b"s"
    assert _settings.secret({"SLURM_JOB_ID": "7", "PMIX_NAMESPACE": "p"}) == b"7 p"
    assert _settings.secret({}) == b""


def test_the_first_rank_serves_where_master_addr_says(ring):
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def body():
        for name in list(os.environ):
            if name.startswith("HOROVOD_"):
                del os.environ[name]
        import ronde

        for _ in range(2):
            ronde.init()
            assert ronde.allgather_object(ronde.rank()) == [0, 1]
            ronde.shutdown()

    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    ring(2).run(body, per_rank=lambda rank: {"RANK": str(rank)}, **variables)


def test_nothing_works_before_init():
    code = "import ronde\ntry:\n    ronde.rank()\nexcept ValueError as error:\n    print(error)"
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == "Horovod has not been initialized; use hvd.init()."


def test_a_mismatch_is_told_to_everybody_and_the_ring_goes_on(ring):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        for own in (np.ones(3 + ronde.rank()), np.ones(3, ["float32", "float64"][ronde.rank()])):
            try:
                rn.allreduce(own, name="x")
            except RuntimeError as error:
                assert isinstance(error, ronde.MismatchError) and "Mismatched" in str(error), error
            else:
                raise AssertionError("ranks that disagree were not told")
        assert rn.allreduce(np.ones(1), op=rn.Sum)[0] == 2

    ring(2).run(body)


def test_a_name_is_taken_until_its_result_is(ring):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        handle = rn.allreduce_async(np.ones(1), name="x")
        try:
            rn.allreduce_async(np.ones(1), name="x")
        except ValueError as error:
            assert "same name" in str(error)
        else:
            raise AssertionError("a name was in flight twice")
        rn.synchronize(handle)
        rn.allreduce(np.ones(1), name="x")

    ring(2).run(body)


def test_survivors_of_a_killed_rank_start_again(ring):
    def body():
        import signal
        import time

        import ronde
        import ronde.numpy as rn

        ronde.init()
        if ronde.rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        begun = time.monotonic()
        try:
            rn.allreduce(np.ones(1))
        except ronde.HorovodInternalError:
            assert time.monotonic() - begun < 20
        else:
            raise AssertionError("a dead rank was not missed")
        ronde.shutdown()
        os.environ["HOROVOD_SIZE"] = "2"
        ronde.init()
        assert rn.allreduce(np.ones(1), op=rn.Sum)[0] == 2

    results = ring(3).run(body, check=False)
    assert [code for code, _ in results] == [0, 0, -9], results


def test_rings_form_again_without_leaks(ring):
    def body():
        import ronde
        import ronde.numpy as rn

        def count():
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

        for turn in range(50):
            ronde.init()
            assert rn.allreduce(np.ones(1), op=rn.Sum)[0] == 2
            rn.barrier()
            ronde.shutdown()
            if turn == 5:
                before = count()
        assert count() == before, (count(), before)

    ring(2).run(body)


def test_a_forked_child_is_told_and_harms_nobody(ring):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        child = os.fork()
        if child == 0:
            try:
                rn.allreduce(np.ones(1))
            except RuntimeError as error:
                sys.exit(0 if "forked child" in str(error) else 3)
            sys.exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert rn.allreduce(np.ones(1), op=rn.Sum)[0] == 2

    ring(2).run(body)


def test_ctrl_c_ends_a_wait(ring):
    def body():
        import signal
        import threading
        import time

        import ronde
        import ronde.numpy as rn

        # Who runs in the background of a shell is born deaf to it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ronde.init()
        interrupted = os.path.join(os.path.dirname(__file__), "interrupted")
        if ronde.rank() == 1:
            # It takes no part until the other has given up, so only Ctrl-C can end that one's wait.
            deadline = time.monotonic() + 30
            while not os.path.exists(interrupted) and time.monotonic() < deadline:
                time.sleep(0.02)
            sys.exit(0)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            rn.allreduce(np.ones(1))
        except KeyboardInterrupt:
            open(interrupted, "w").close()
        else:
            raise AssertionError("it was not interrupted")

    ring(2).run(body)


def test_other_threads_run_while_one_waits(ring):
    def body():
        import threading
        import time

        import ronde
        import ronde.numpy as rn

        ronde.init()
        if ronde.rank() == 1:
            time.sleep(0.5)
        turns = []
        done = threading.Event()

        def turn():
            while not done.wait(0.01):
                turns.append(1)

        thread = threading.Thread(target=turn)
        thread.start()
        rn.barrier()
        done.set()
        thread.join()
        assert ronde.rank() == 1 or len(turns) > 10, len(turns)

    ring(2).run(body)


def test_process_sets_work_apart(ring):
    def body():
        import ronde
        import ronde.numpy as rn

        even, odd = ronde.ProcessSet([0, 2]), ronde.ProcessSet([1])
        assert even.included() is None
        ronde.init(process_sets=[even, odd])
        rank = ronde.rank()
        mine = odd if rank == 1 else even
        assert mine.included() and mine.size() == len(mine.ranks)
        own = np.full(2, float(rank))
        assert rn.allreduce(own, op=rn.Sum, process_set=mine)[0] == sum(mine.ranks)
        try:
            rn.allreduce(own, process_set=even if rank == 1 else odd)
        except ValueError:
            pass
        else:
            raise AssertionError("a rank worked in a set of others")
        try:
            ronde.add_process_set([0, 1])
        except ValueError as error:
            assert "HOROVOD_DYNAMIC_PROCESS_SETS" in str(error)
        else:
            raise AssertionError("a set was added while they are static")

    ring(3).run(body)


def test_process_sets_come_and_go(ring):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init(process_sets="dynamic")
        added = ronde.add_process_set([0, 1])
        assert ronde._basics._get_process_set_ids_and_ranks() == {0: [0, 1, 2], added.process_set_id: [0, 1]}
        if added.included():
            assert rn.allreduce(np.ones(1), op=rn.Sum, process_set=added)[0] == 2
        try:
            ronde.add_process_set([1, 0])
        except ValueError:
            pass
        else:
            raise AssertionError("a set was added twice")
        assert ronde.remove_process_set(added) and added.process_set_id is None
        assert not ronde.remove_process_set(ronde.global_process_set)

    ring(3).run(body)


def test_join_waits_for_the_last(ring):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        for turn in range(1 + ronde.rank()):
            total = rn.allreduce(np.ones(1), op=rn.Sum, name=f"turn{turn}")[0]
            assert total == 3 - turn, (turn, total)
        assert ronde.join() == 2

    ring(3).run(body)


def test_timelines_begin_and_end(ring, tmp_path):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        ronde.start_timeline(os.environ["TRACE"], mark_cycles=True)
        rn.allreduce(np.ones(3), name="traced")
        ronde.stop_timeline()

    trace = tmp_path / "trace.json"
    ring(2).run(body, HOROVOD_TIMELINE="DYNAMIC", TRACE=str(trace))
    names = {event.get("name") for event in json.loads(trace.read_text())}
    assert {"NEGOTIATE_ALLREDUCE", "ALLREDUCE"} <= names, names


def test_a_stall_is_told_with_the_missing_rank(ring):
    def body():
        import time

        import ronde
        import ronde.numpy as rn

        ronde.init()
        time.sleep(1.5 * ronde.rank())
        rn.allreduce(np.ones(1), name="late")

    results = ring(2).run(body, HOROVOD_STALL_CHECK_TIME_SECONDS="0.5")
    assert "allreduce.late" in results[0][1], results


def test_an_idle_ring_costs_nothing(ring):
    def body():
        import time

        import ronde

        ronde.init()
        ronde.barrier()
        before = time.process_time()
        time.sleep(1)
        assert time.process_time() - before < 0.05

    begun = time.monotonic()
    ring(2).run(body)
    assert time.monotonic() - begun > 1
