"""Rings of real processes: a test's body is a function that every rank runs. And jobs of the launcher."""

import inspect
import os
import re
import signal
import subprocess
import sys
import sysconfig
import textwrap
import threading
import time
from pathlib import Path

import pytest

from ronde._ronde import Server

SECRET = "of-the-tests"
# A machine that is busy with other things takes seconds to start Python.
TIMEOUT_SECONDS = 300
HOROVODRUN = os.path.join(sysconfig.get_path("scripts"), "horovodrun")
HOROVODRUN = os.environ.get("RONDE_HOROVODRUN", HOROVODRUN)
PREAMBLE = """
import os, sys
import numpy as np
"""


def _count_skip(report):
    """Puts a skipped test into the list of `make test`, as those of Rust do."""
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("RONDE_SKIPS"):
        with open(os.environ["RONDE_SKIPS"], "a", encoding="utf-8") as skips:
            skips.write(f"SKIPPED: {report.nodeid}: {report.longrepr[-1].removeprefix('Skipped: ')}\n")


pytest_runtest_logreport = pytest_collectreport = _count_skip


class Ring:
    """Starts so many ranks; their bodies must all succeed."""

    def __init__(self, size, folder):
        self.size = size
        self.folder = folder

    def run(self, body, check=True, per_rank=None, **variables):
        """Runs a function's source on every rank; returns exit codes and outputs."""
        script = self.folder / "rank.py"
        script.write_text(f"{PREAMBLE}\n{textwrap.dedent(inspect.getsource(body))}\n{body.__name__}()\n")
        server = Server("127.0.0.1:0", SECRET.encode())
        ranks = [self._start(script, rank, server.port, variables, per_rank) for rank in range(self.size)]
        results = []
        for process in ranks:
            try:
                output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                for each in ranks:
                    each.kill()
                output = process.communicate()[0] + "\n(timed out)"
            results.append((process.returncode, output))
        if check:
            # All of them: one that fails takes others with it.
            failed = [
                f"rank {rank} of {self.size} exited with {code}:\n{output}"
                for rank, (code, output) in enumerate(results)
                if code != 0
            ]
            assert not failed, "\n".join(failed)
        return results

    def _start(self, script, rank, port, variables, per_rank):
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(sys.path))
        environment["HOROVOD_GLOO_TIMEOUT_SECONDS"] = "120"
        environment.update(
            HOROVOD_RANK=str(rank),
            HOROVOD_SIZE=str(self.size),
            HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1",
            HOROVOD_GLOO_RENDEZVOUS_PORT=str(port),
            RONDE_SECRET=SECRET,
            **variables,
        )
        environment.update(per_rank(rank) if per_rank else {})
        return subprocess.Popen(
            [sys.executable, str(script)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture
def ring(tmp_path):
    return lambda size: Ring(size, tmp_path)


@pytest.fixture
def examples():
    return Path(__file__).resolve().parents[2] / "examples"


class Job:
    """A launcher with its hosts in a file, which it reads itself, and all that it says."""

    def __init__(self, folder, hosts, words, program, **variables):
        self.folder = folder
        self.set_hosts(hosts)
        file = str(folder / "hosts")
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(sys.path), RONDE_HOSTS_FILE=file)
        environment.update(HOROVOD_GLOO_TIMEOUT_SECONDS="120", **variables)
        command = [HOROVODRUN, *words.split(), "--host-discovery-script", str(folder / "discover_hosts.sh"), sys.executable, *program]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def set_hosts(self, hosts):
        (self.folder / "draft").write_text("".join(f"{host}\n" for host in hosts))
        (self.folder / "draft").rename(self.folder / "hosts")

    def wait_for(self, pattern, after=0):
        """Waits for a line, and returns how many there are then."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not any(re.search(pattern, line) for line in self.lines[after:]):
            assert time.monotonic() < deadline, f"no `{pattern}`:\n{self}"
            assert self.process.poll() is None, f"it ended without `{pattern}`:\n{self}"
            time.sleep(0.01)
        return len(self.lines)

    def kill(self, number):
        """Kills the worker whose lines have this number."""
        pids = [re.match(rf"\[{number}\]<stdout>:pid (\d+)", line) for line in self.lines]
        os.kill(int([pid for pid in pids if pid][-1].group(1)), signal.SIGKILL)

    def end(self):
        code = self.process.wait(timeout=TIMEOUT_SECONDS)
        self._reader.join()
        return code

    def __str__(self):
        return "\n".join(self.lines[-200:])


@pytest.fixture
def job(tmp_path):
    if not os.path.exists(HOROVODRUN):
        pytest.skip(f"there is no {HOROVODRUN}")
    jobs = []

    def start(hosts, words, *program):
        jobs.append(Job(tmp_path, hosts, words, [str(word) for word in program]))
        return jobs[-1]

    yield start
    for each in jobs:
        each.process.kill()
        each.process.wait()
