"""Tensors that are not on the CPU: they go through the backend that the caller named for their device.

`"cpu:ronde,cuda:nccl"` makes a group of ours; the first tensor on a GPU makes one of NCCL with the same members, who all
do the same operation then.
"""

import functools

import torch.distributed as dist
from torch.distributed import distributed_c10d

from ronde.torch.distributed._compiler import untraced


class OtherDevices:
    """The groups of a group's other devices, by the device's name."""

    def __init__(self, group):
        self._group = group
        self._groups: dict = {}

    def configured(self):
        """The backend of each device, as the caller named them."""
        said = distributed_c10d._world.pg_backend_config.get(self._group)
        return distributed_c10d.BackendConfig(dist.Backend(said)).get_device_backend_map() if said else {}

    def group(self, device):
        if device not in self._groups:
            backend = self.configured().get(device, "ronde")
            if backend == "ronde":
                raise RuntimeError(
                    f"the backend ronde works on CPU tensors, not on `{device}`: name a backend for that device too, "
                    f'as in init_process_group("cpu:ronde,{device}:nccl")'
                )
            ranks = dist.get_process_group_ranks(self._group)
            self._groups[device] = dist.new_group(
                ranks, timeout=self._group.timeout, backend=f"{device}:{backend}", use_local_synchronization=True
            )
        return self._groups[device]

    def close(self):
        """torch ends those groups itself: they are in its list."""
        self._groups.clear()


def by_device(name, method):
    """The method for tensors of the CPU; for others the same one of their group."""

    @untraced
    @functools.wraps(method)
    def chosen(self, tensors, *rest, **named):
        first = tensors
        while isinstance(first, (list, tuple)):
            if not first:
                break
            first = first[0]
        if getattr(first, "is_cpu", True):
            return method(self, tensors, *rest, **named)
        return getattr(self._others.group(first.device.type), name)(tensors, *rest, **named)

    return chosen
