"""The gradients of a step on JAX and PyTorch, reduced: all of them in one operation."""

import dataclasses
from typing import Any

from ronde._operations import Average
from ronde.process_sets import global_process_set


def _operations():
    import keras

    if keras.backend.backend() == "jax":
        from ronde import jax as module
    else:
        from ronde import torch as module
    return module


@dataclasses.dataclass
class Reducer:
    """How gradients are reduced, and which are not. Devices and sparse gradients are TensorFlow's."""

    name: str
    device_dense: str = ""
    device_sparse: str = ""
    compression: Any = None
    sparse_as_dense: bool = False
    op: int = Average
    gradient_predivide_factor: float = 1.0
    groups: Any = None
    process_set: Any = global_process_set
    scale_local_gradients: bool = True

    def __post_init__(self):
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        if self.groups is not None and not (isinstance(self.groups, list) or self.groups > 0):
            raise ValueError("groups should be a non-negative integer or a list of list of variables.")
        self.compression = self.compression or _operations().Compression.none
        self._local = set()

    def keep_local(self, variable):
        """The variable is this rank's own: its gradient is not reduced."""
        self._local.add(id(variable))

    def is_local(self, variable):
        return id(variable) in self._local

    def reduce(self, grads, variables):
        """The gradients, reduced; those of local variables divided by the number of ranks, as if they were."""
        size = self.process_set.size()
        if size is None:
            raise ValueError(f"{self.name}: Process set provided does not exist, or has not been registered.")
        results = list(grads)
        if self.process_set.included():
            pairs = enumerate(zip(grads, variables))
            shared = [index for index, (grad, each) in pairs if grad is not None and not self.is_local(each)]
            for number, group in enumerate(self._groups(shared, variables)):
                reduced = self._reduce(f"{self.name}.{number}", [grads[index] for index in group])
                for index, grad in zip(group, reduced):
                    results[index] = grad
        if self.scale_local_gradients:
            for index, variable in enumerate(variables):
                if self.is_local(variable) and grads[index] is not None:
                    results[index] = grads[index] / size
        return results

    def _reduce(self, name, grads):
        factor = self.gradient_predivide_factor
        return _operations().grouped_allreduce(
            grads,
            name=name,
            compression=self.compression,
            op=self.op,
            prescale_factor=1.0 / factor,
            postscale_factor=factor,
            process_set=self.process_set,
        )

    def _groups(self, shared, variables):
        """Which gradients are reduced together, as lists of indices."""
        if not shared:
            return []
        if isinstance(self.groups, list):
            by_id = {id(variables[index]): index for index in shared}
            found = [[by_id.pop(id(each)) for each in group if id(each) in by_id] for group in self.groups]
            return [group for group in found if group] + [[index] for index in by_id.values()]
        count = min(self.groups or 1, len(shared))
        ends = [len(shared) * (part + 1) // count for part in range(count)]
        return [shared[begin:end] for begin, end in zip([0, *ends], ends)]
