"""Rings of real processes: a test's body is a function that every rank runs."""

import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ronde._ronde import Server

SECRET = "of-the-tests"
# A machine that is busy with other things takes seconds to start Python.
TIMEOUT_SECONDS = 300
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
