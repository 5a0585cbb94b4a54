"""PyTorch's own tests for any backend of torch.distributed, as its wheel has them, on ours: every rank runs this file.

PyTorch starts new processes for each test; here the ranks stay, and each test has a process group of its own.
"""

import functools
import os
import sys
import time
import unittest
from datetime import timedelta
from pathlib import Path

os.environ.update(BACKEND="ronde", TORCH_DISTRIBUTED_DEBUG="OFF")

import torch.distributed as dist
from torch.testing._internal import common_distributed
from torch.testing._internal.common_utils import TestCase

import ronde.torch.distributed  # noqa: F401

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FOLDER = Path(os.environ["TEMP_DIR"])
# Of a test, for all ranks to come to the same place.
PATIENCE_SECONDS = 60

# What tests ask before they run: what is known to work somewhere.
for feature in ("ddp", "subgroup", "plugin"):
    common_distributed.DistTestCases.backend_feature[feature].add("ronde")

from torch.testing._internal.distributed import distributed_test  # noqa: E402

_store = dist.FileStore(str(FOLDER / "meeting"), SIZE)


def skipping(method):
    """Tests end the process when something is missing; here other tests want it."""

    @functools.wraps(method)
    def run(self, *args):
        try:
            return method(self, *args)
        except SystemExit as end:
            for skip in common_distributed.TEST_SKIPS.values():
                if skip.exit_code == end.code:
                    raise unittest.SkipTest(skip.message) from None
            raise AssertionError(f"the test ended the process with {end.code}") from None

    return run


class TestBackend(TestCase, distributed_test.DistributedTest._DistTestBase):
    rank = RANK
    world_size = str(SIZE)

    @property
    def init_method(self):
        return f"file://{FOLDER}/init_dir/{self._testMethodName}"

    def setUp(self):
        super().setUp()
        self._places = 0
        self._barrier()
        seconds = distributed_test.CUSTOM_PG_TIMEOUT.get(self._testMethodName, distributed_test.default_pg_timeout)
        dist.init_process_group(
            "ronde",
            init_method=self.init_method,
            world_size=SIZE,
            rank=RANK,
            timeout=timedelta(seconds=seconds),
        )

    def tearDown(self):
        if dist.is_initialized():
            dist.destroy_process_group()
        super().tearDown()

    def _barrier(self, *_, **__):
        """Not by the group, which is what is tested."""
        self._places += 1
        key = f"{self._testMethodName}/{self._places}"
        _store.add(key, 1)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while _store.add(key, 0) < SIZE:
            if time.monotonic() > deadline:
                raise AssertionError("not all ranks came")
            time.sleep(0.01)


for name in dir(TestBackend):
    if name.startswith("test"):
        setattr(TestBackend, name, skipping(getattr(TestBackend, name)))

if __name__ == "__main__":
    sys.exit("pytest runs this")
