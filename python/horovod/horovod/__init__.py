"""Horovod's module names for Ronde: existing training scripts run unchanged."""

__version__ = "0.28.1"


def run(*args, **kwargs):
    """Runs a function on many ranks; see `horovod.runner.run`."""
    from horovod.runner import run

    return run(*args, **kwargs)
