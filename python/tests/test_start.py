"""The ways in which ranks are started: by launchers of others, by hand, alone."""

import os
import random
import shutil
import socket
import subprocess
import sys

import pytest

from ronde import _settings

# Every launcher runs it on two ranks; the second time shows that what was agreed on lasts.
SCRIPT = """
import ronde
for _ in range(2):
    ronde.init()
    assert ronde.allgather_object((ronde.rank(), ronde.local_rank())) == [(0, 0), (1, 1)]
    ronde.shutdown()
print("met")
"""
# As if each rank were alone on its host, and without mpi4py.
APART = """
import os, sys
os.environ.update(OMPI_COMM_WORLD_LOCAL_SIZE="1", MPI_LOCALNRANKS="1")
sys.modules.update(dict.fromkeys({hidden}))
"""
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
MPICH = ["mpiexec.hydra", "-n", "2"]


def clean(**more):
    """The variables of this process without those by which somebody may have started it."""
    strange = ("HOROVOD_", "OMPI_", "PMI", "SLURM_", "RONDE_", "MASTER_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    ours = {"PYTHONPATH": os.pathsep.join(sys.path), "HOROVOD_GLOO_TIMEOUT_SECONDS": "120"}
    return {**kept, **ours, **more}


def start(words, script, **more):
    done = subprocess.run(
        [*words, sys.executable, "-c", script], env=clean(**more), capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


def by_hand(script, variables, wrapper=(), **more):
    """Two ranks that are children of one process, with no more than the variables of some launcher."""
    ranks = [
        subprocess.Popen(
            [*wrapper, sys.executable, "-c", script],
            env=clean(**variables(rank), **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in ("0", "1")
    ]
    return [rank.communicate(timeout=300)[0] for rank in ranks]


# As many write it: it stays, with the rank as its child, and makes other launchers' variables.
WRAPPER = ["sh", "-c", 'export RANK=$OMPI_COMM_WORLD_RANK; "$0" "$@"; exit $?']


def free_port():
    """Below the range that the kernel gives to others: nobody gets it while the ranks start."""
    while True:
        port = random.randrange(15000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        return str(port)


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
    found = _settings.rank_info(env)
    assert (found.rank, found.size, found.local_rank, found.local_size, found.rendezvous) == expected, what


def test_nonsense_in_the_environment_is_named():
    with pytest.raises(ValueError, match="HOROVOD_SIZE='two'"):
        _settings.rank_info({"HOROVOD_RANK": "0", "HOROVOD_SIZE": "two"})
    with pytest.raises(ValueError, match="MASTER_ADDR"):
        _settings.rank_info({"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"})


def test_a_job_without_a_secret_is_told_from_others_by_its_name():
    assert _settings.secret({"RONDE_SECRET": "s", "SLURM_JOB_ID": "7"}) == b"s"
    assert _settings.secret({"SLURM_JOB_ID": "7", "PMIX_NAMESPACE": "p"}) == b"7 p"
    assert _settings.secret({}) == b""


def test_a_rank_that_nobody_started_is_alone():
    script = "import ronde; ronde.init(); print(ronde.allgather_object(ronde.rank()), ronde.size(), ronde.local_size())"
    assert start([], script) == (0, "[0] 1 1\n", "")


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param(words, marks=pytest.mark.skipif(not shutil.which(words[0]), reason=f"`{words[0]}` is not installed"))
        for words in (MPIRUN, MPICH)
    ],
    ids=["Open MPI", "MPICH"],
)
@pytest.mark.parametrize("how", ["on one host", "apart", "apart without mpi4py"])
def test_ranks_of_mpi_meet(launcher, how, tmp_path):
    """On one host in a directory; else through mpi4py if it is there, MPICH's launcher or Open MPI's library."""
    script = SCRIPT
    if how != "on one host":
        hidden = ["mpi4py"] if how.endswith("mpi4py") else []
        script = APART.format(hidden=hidden) + SCRIPT.replace("ronde.local_rank()", "ronde.rank()")
    code, out, err = start(launcher, script, TMPDIR=str(tmp_path))
    # The launcher mixes the lines of its ranks.
    assert (code, out.count("met")) == (0, 2), out + err
    assert not list(tmp_path.glob("ronde-*")), "the ranks leave nothing behind"


@pytest.mark.parametrize("wrapper", [(), WRAPPER], ids=["directly", "in a wrapper"])
def test_ranks_meet_with_the_variables_of_mpirun_alone(wrapper, tmp_path):
    def variables(rank):
        names = ("RANK", rank), ("SIZE", "2"), ("LOCAL_RANK", rank), ("LOCAL_SIZE", "2")
        return {f"OMPI_COMM_WORLD_{name}": value for name, value in names}

    assert by_hand(SCRIPT, variables, wrapper, TMPDIR=str(tmp_path)) == ["met\n", "met\n"]
    assert list(tmp_path.iterdir()) == [], "the ranks leave nothing behind"


@pytest.mark.skipif(not shutil.which("mpirun"), reason="`mpirun` is not installed")
def test_ranks_of_mpirun_meet_in_a_wrapper(tmp_path):
    code, out, err = start([*MPIRUN, *WRAPPER], SCRIPT, TMPDIR=str(tmp_path))
    assert (code, out.count("met")) == (0, 2), out + err


def test_ranks_meet_with_slurms_variables():
    """The first rank serves on the first host of the list, at a port that follows from the job's number."""

    def variables(rank):
        return {"SLURM_PROCID": rank, "SLURM_LOCALID": rank}

    # The port is 15000 + 31 * job % 15000.
    job = str((int(free_port()) - 15000) * pow(31, -1, 15000) + os.getpid() * 15000)
    more = {"SLURM_NTASKS": "2", "SLURM_JOB_ID": job, "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "localhost"}
    assert by_hand(SCRIPT, variables, **more) == ["met\n", "met\n"]


def test_the_first_rank_serves_where_master_addr_says():
    """As torchrun does it, and who starts ranks by hand."""

    def variables(rank):
        return {"RANK": rank, "LOCAL_RANK": rank}

    more = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": free_port()}
    assert by_hand(SCRIPT, variables, **more) == ["met\n", "met\n"]


def test_the_first_rank_serves_on_all_addresses_whatever_its_name_means_at_home():
    """Debian gives a host's name to 127.0.1.1: a server there is found by nobody from elsewhere."""
    try:
        socket.getaddrinfo(socket.gethostname(), 0)
    except OSError:
        pytest.skip("this host's name has no address")

    def variables(rank):
        # The other one knows the host by another address.
        return {"RANK": rank, "LOCAL_RANK": rank, "MASTER_ADDR": (socket.gethostname(), "127.0.0.2")[int(rank)]}

    assert by_hand(SCRIPT, variables, WORLD_SIZE="2", MASTER_PORT=free_port()) == ["met\n", "met\n"]
    assert [_settings.is_loopback(name) for name in ("localhost", "127.0.1.1", "::1", "10.0.0.1", "n03")] == [
        True,
        True,
        True,
        False,
        False,
    ]
