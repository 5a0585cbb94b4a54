"""The gradients of a step, reduced: what tapes and optimizers share."""

import dataclasses
from typing import Any

import tensorflow as tf

from ronde.process_sets import global_process_set
from ronde.tensorflow import mpi_ops
from ronde.tensorflow.compression import Compression
from ronde.tensorflow.mpi_ops import Average
from ronde.tensorflow.operations import allreduce, grouped_allreduce, members
from ronde.tensorflow.util import _executing_eagerly, is_elastic


@dataclasses.dataclass
class Reducer:
    """How gradients are reduced, and which are not."""

    name: str
    device_dense: str = ""
    device_sparse: str = ""
    compression: Any = Compression.none
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
            raise ValueError("groups should be a non-negative integer or a list of list of tf.Variable.")
        self._local = set()

    def keep_local(self, variable):
        """The variable is this rank's own: its gradient is not reduced."""
        self._local.add(_key(variable))

    def is_local(self, variable):
        return _key(variable) in self._local

    def reduce(self, grads, variables, use_generic_names=False):
        """The gradients, reduced; those of local variables divided by the number of ranks, as if they were."""
        grads, variables = list(grads), list(variables)
        if self.process_set.size() is None:
            raise ValueError(f"{self.name}: Process set provided does not exist, or has not been registered.")
        shared = [index for index, each in enumerate(variables) if not self.is_local(each) and grads[index] is not None]
        own = [grads[index] for index in shared], [variables[index] for index in shared]
        reduced = self._reduce(*own, use_generic_names)
        for index, grad in zip(shared, reduced):
            grads[index] = grad
        if self.scale_local_gradients:
            for index, variable in enumerate(variables):
                if self.is_local(variable) and grads[index] is not None:
                    grads[index] = _divide(grads[index], self.process_set)
        return grads

    def _reduce(self, grads, variables, use_generic_names):
        if not grads:
            return grads
        if self.sparse_as_dense:
            grads = [tf.convert_to_tensor(each) if isinstance(each, tf.IndexedSlices) else each for each in grads]
        if not is_elastic() and (not self.process_set.included() or self.process_set.size() == 1):
            return grads
        with tf.name_scope(f"{self.name}_Allreduce"):
            act = lambda: self._reduce_groups(grads, variables, use_generic_names)  # noqa: E731
            if not is_elastic() or self.process_set.process_set_id == 0:
                # A ring of one reduces too, at no cost: no graph has to be made again when others come.
                return act()
            included = tf.equal(mpi_ops.process_set_included_op(self.process_set.process_set_id), 1)
            return tf.cond(included, act, lambda: grads)

    def _reduce_groups(self, grads, variables, use_generic_names):
        how = {
            "device_dense": self.device_dense,
            "device_sparse": self.device_sparse,
            "compression": self.compression,
            "op": self.op,
            "process_set": self.process_set,
            "ignore_name_scope": use_generic_names,
        }
        if self.op == Average and self.gradient_predivide_factor != 1.0:
            how["prescale_factor"] = 1.0 / self.gradient_predivide_factor
            how["postscale_factor"] = self.gradient_predivide_factor
        results = list(grads)
        for number, group in enumerate(_groups(self.groups, variables)):
            name = self._name(number, [variables[index] for index in group], use_generic_names)
            if len(group) == 1:
                results[group[0]] = allreduce(grads[group[0]], name=name, **_for_one(how, grads[group[0]]))
                continue
            for index, grad in zip(group, grouped_allreduce([grads[each] for each in group], name=name, **how)):
                results[index] = grad
        return results

    def _name(self, number, variables, use_generic_names):
        """The name of a reduction: by its variables, which are the same on all ranks whatever was traced before."""
        if use_generic_names:
            return f"grad_{number}"
        first = getattr(variables[0], "path", None) or getattr(variables[0], "name", str(number))
        return mpi_ops._normalize_name(f"{self.name}_{number}_{first}")


def _for_one(how, grad):
    if isinstance(grad, tf.IndexedSlices):
        return {key: value for key, value in how.items() if key not in ("prescale_factor", "postscale_factor")}
    return how


def _groups(groups, variables):
    """Which gradients are reduced together, as lists of indices.

    In a graph each alone unless something else is wanted: its reduction runs while others are still computed, and the
    engine puts together what comes at the same time. Outside of graphs all are there, and one call is the cheapest.
    """
    everything = list(range(len(variables)))
    if groups is None:
        return [everything] if _executing_eagerly() else [[index] for index in everything]
    if isinstance(groups, int):
        count = min(groups, len(everything))
        return [list(part) for part in _split(everything, count)]
    by_key = {_key(variable): index for index, variable in enumerate(variables)}
    found = [[by_key.pop(_key(each)) for each in group if _key(each) in by_key] for group in groups]
    return [group for group in found if group] + [[index] for index in by_key.values()]


def _split(items, count):
    size, more = divmod(len(items), count)
    ends = [size * (part + 1) + min(part + 1, more) for part in range(count)]
    return [items[begin:end] for begin, end in zip([0, *ends], ends)]


def _key(variable):
    """What tells variables apart: Keras 3 wraps those of TensorFlow."""
    value = getattr(variable, "value", None)
    if value is not None and not callable(value):
        variable = value
    return variable.ref() if hasattr(variable, "ref") else id(variable)


def _divide(grad, process_set):
    if isinstance(grad, tf.IndexedSlices):
        values = grad.values / members(process_set, grad.values.dtype)
        return tf.IndexedSlices(values, grad.indices, grad.dense_shape)
    return grad / members(process_set, grad.dtype)


def _make_allreduce_grads_fn(
    name,
    device_dense,
    device_sparse,
    compression,
    sparse_as_dense,
    op,
    gradient_predivide_factor,
    groups,
    process_set=global_process_set,
):
    """The function of Horovod's that scripts have found inside."""
    reducer = Reducer(
        name, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor, groups,
        process_set,
    )
    return lambda grads, vars=None, use_generic_names=False: reducer.reduce(
        grads, grads if vars is None else vars, use_generic_names
    )
