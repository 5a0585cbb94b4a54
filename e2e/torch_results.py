"""Notes which of PyTorch's own tests did not pass on our backend, and why; as `horovod_results` does it, with other reasons."""

import sys

import horovod_results as results

results.TITLE = "PyTorch's tests"
results.HEAD = """\
# PyTorch's own tests of a backend that do not pass on ours, and why: e2e/README.md has the reasons.
# Written by `make e2e-torch`."""
results.SKIPS[:] = [
    ("gpu", r"(?i)\bcuda|\bgpu|accelerator|nccl"),
    ("gloo-only", r"(?i)gloo"),
    ("mpi-only", r"\bMPI|\bmpi"),
    ("torchvision", r"torchvision"),
    ("other-size", r"world ?size"),
    ("skipped-upstream", r"github\.com/pytorch/pytorch/issues/\d+|NVIDIA"),
    # In words of its own.
    ("other", r""),
]
results.FAILURES[:] = []

pytest_addoption, pytest_configure = results.pytest_addoption, results.pytest_configure

if __name__ == "__main__":
    sys.exit(results.main())
