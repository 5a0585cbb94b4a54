"""A plugin of pytest that gives Horovod's tests the surroundings they were written for.

The elastic tests call functions inside of Horovod's launcher, and change constants of its driver. Here they find these
names; the job itself is one of `horovodrun`, with the arguments that the test has put together.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import types

FAILED = "Horovod detected that one or more processes exited with non-zero status"
# What our launcher says when `--reset-limit` is exceeded, as a pattern.
RESET_LIMIT = "number of resets during elastic job exceeded limit: {}"
JOB_SECONDS = 140
# How long the trainings wait to be told of new hosts. Horovod tells when it finds them; we tell when their ranks are
# ready to join, and TensorFlow alone takes longer to import than the three seconds that the trainings wait by default.
DISCOVERY_SECONDS = 60


def _module(name, **members):
    """A module of Horovod's that our drop-in does not have."""
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    setattr(__import__(parent, fromlist=[""]), last, module)


def _parse_args():
    return argparse.Namespace(arguments=sys.argv[1:])


def _run_elastic(args):
    command = [os.environ["RONDE_HOROVODRUN"], *args.arguments, "--discovery-wait", str(DISCOVERY_SECONDS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=JOB_SECONDS)
    print(done.stdout)
    if done.returncode != 0:
        raise RuntimeError(f"{FAILED}: {done.returncode}\n{done.stdout}")


def _hide_muon():
    """Three tests try every optimizer of PyTorch on a model with a bias; Muon, which is newer, refuses those."""
    if importlib.util.find_spec("torch"):
        import torch

        if hasattr(torch.optim, "Muon"):
            torch.optim.Muon.__module__ = "none of those that are tried"


def pytest_configure():
    import horovod.runner.launch as launch

    _hide_muon()
    launch.parse_args, launch._run_elastic = _parse_args, _run_elastic
    _module("horovod.runner.gloo_run", _get_min_start_hosts=None)
    _module("horovod.runner.common.util.config_parser", set_env_from_args=lambda env, args: env)
    _module("horovod.runner.elastic", __path__=[])
    _module("horovod.runner.elastic.constants", RESET_LIMIT_EXCEEDED_MESSAGE=RESET_LIMIT)
    _module("horovod.runner.elastic.driver", DISCOVER_HOSTS_FREQUENCY_SECS=1, ELASTIC_TIMEOUT_SECS=600)
