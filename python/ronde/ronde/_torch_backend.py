"""Registers the backend `ronde` with torch.distributed; what it is made of is loaded when a group is made.

PyTorch calls `register` at the end of its own import (entry point `torch.backends`), in every program of an environment
that has both: so it does nothing else.
"""

import functools
import importlib

_NAME = "ronde"


def register():
    """Makes `init_process_group("ronde")` work; a second call changes nothing."""
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, _NAME.upper()):
        dist.Backend.register_backend(_NAME, _create, devices=["cpu"])
        _meet_under_our_launchers()


def _create(store, rank, size, timeout):
    from ronde.torch.distributed._group import Group

    return Group(store, rank, size, timeout)


def _meet_under_our_launchers():
    """`env://` is what everybody uses, and torch has no other place to say that a launcher has its own variables."""
    # As an attribute it is a function of the same name.
    known = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers
    known["env"] = functools.partial(_rendezvous, known["env"])


def _rendezvous(otherwise, url, **more):
    from ronde.torch.distributed import _rendezvous

    if not _rendezvous.is_needed():
        yield from otherwise(url, **more)
        return
    yield _rendezvous.meet(**{name: value for name, value in more.items() if name == "timeout"})
    raise RuntimeError("Unable to perform re-rendezvous using the launcher's variables")
