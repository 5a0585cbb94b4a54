"""Registers the backend `ronde` with torch.distributed; what it is made of is loaded when a group is made.

PyTorch calls `register` at the end of its own import (entry point `torch.backends`), in every program of an environment
that has both: so it does nothing else.
"""

_NAME = "ronde"


def register():
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, _NAME.upper()):
        dist.Backend.register_backend(_NAME, _create, devices=["cpu"])


def _create(store, rank, size, timeout):
    from ronde.torch.distributed._group import Group

    return Group(store, rank, size, timeout)
