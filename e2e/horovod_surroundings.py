"""A plugin of pytest that gives Horovod's tests the surroundings they were written for.

The elastic tests change constants and a function inside of Horovod's elastic driver, which is a program here: they find
these names, and what they set makes no difference. The jobs themselves go through `horovod.runner.launch`, as they do
for users.
"""

import importlib.util
import sys
import types

# How long the trainings wait to be told of new hosts. Horovod tells when it finds them; we tell when their ranks are
# ready to join, and TensorFlow alone takes longer to import than the three seconds that the trainings wait by default.
DISCOVERY_SECONDS = 60


def _patient(parse_args):
    """The arguments of the test, whose training waits for longer."""

    def parse():
        args = parse_args()
        args.command = [*args.command, "--discovery-wait", str(DISCOVERY_SECONDS)]
        return args

    return parse


def _add_driver():
    import horovod.runner.elastic
    import horovod.runner.gloo_run

    driver = types.ModuleType("horovod.runner.elastic.driver")
    driver.DISCOVER_HOSTS_FREQUENCY_SECS, driver.ELASTIC_TIMEOUT_SECS = 1, 600
    horovod.runner.elastic.driver = sys.modules[driver.__name__] = driver
    horovod.runner.gloo_run._get_min_start_hosts = None


def _hide_muon():
    """Three tests try every optimizer of PyTorch on a model with a bias; Muon, which is newer, refuses those."""
    if importlib.util.find_spec("torch"):
        import torch

        if hasattr(torch.optim, "Muon"):
            torch.optim.Muon.__module__ = "none of those that are tried"


def pytest_configure():
    import horovod.runner.launch as launch

    _hide_muon()
    _add_driver()
    launch.parse_args = _patient(launch.parse_args)
