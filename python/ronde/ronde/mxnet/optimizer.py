"""Gradients are averaged over all ranks before they are used."""

import warnings

import mxnet as mx

from ronde._operations import Average, synchronize
from ronde.mxnet.compression import Compression
from ronde.mxnet.mpi_ops import starting
from ronde.process_sets import global_process_set


class _Averaging:
    """How gradients are averaged: groups are one operation each."""

    def __init__(self, predivide_factor, num_groups, process_set):
        self.factors = 1.0 / predivide_factor, predivide_factor
        self.num_groups = num_groups
        self.process_set = process_set

    def is_needed(self):
        return self.process_set.included() and self.process_set.size() > 1

    def average(self, names, grads):
        """Averages in place; waits once for all."""
        how = (Average, *self.factors, self.process_set)
        if self.num_groups > 0:
            groups = list(zip(_parts(names, self.num_groups), _parts(grads, self.num_groups)))
            start = starting.grouped_allreduce_
            handles = [start(group, None, f"{some[0]}:{some[-1]}", *how) for some, group in groups if some]
        else:
            handles = [starting.allreduce_(grad, None, name, *how) for name, grad in zip(names, grads)]
        for handle in handles:
            synchronize(handle)


def _parts(items, count):
    """Cuts a list into so many parts of nearly equal length."""
    ends = [len(items) * part // count for part in range(count + 1)]
    return [items[start:end] for start, end in zip(ends, ends[1:])]


class DistributedOptimizer(mx.optimizer.Optimizer):
    """An optimizer that averages each gradient before it uses it; everything else is the optimizer's own."""

    def __init__(self, optimizer, gradient_predivide_factor=1.0, num_groups=0, process_set=global_process_set):
        self._optimizer = optimizer
        self._averaging = _Averaging(gradient_predivide_factor, num_groups, process_set)

    def __getattr__(self, item):
        # Not while it is unpickled, when there is nothing yet.
        if item in ("_optimizer", "_averaging"):
            raise AttributeError(item)
        return getattr(self._optimizer, item)

    def create_state(self, index, weight):
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index, weight):
        return self._optimizer.create_state_multi_precision(index, weight)

    def update(self, index, weight, grad, state):
        self._average(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        self._average(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def _average(self, index, grad):
        if not self._averaging.is_needed():
            return
        is_many = isinstance(index, (list, tuple))
        names = [str(each) for each in index] if is_many else [str(index)]
        self._averaging.average(names, list(grad) if is_many else [grad])

    def set_learning_rate(self, lr):
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult):
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        self._optimizer.set_wd_mult(args_wd_mult)


class DistributedTrainer(mx.gluon.Trainer):
    """A trainer that averages all gradients before each step. Two of them need prefixes that differ."""

    def __init__(
        self,
        params,
        optimizer,
        optimizer_params=None,
        compression=Compression.none,
        gradient_predivide_factor=1.0,
        prefix=None,
        num_groups=0,
        process_set=global_process_set,
    ):
        if isinstance(optimizer, DistributedOptimizer):
            warnings.warn("DistributedTrainer averages by itself: it takes the optimizer inside", stacklevel=2)
            optimizer = optimizer._optimizer
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        self._compression = compression
        self._prefix = prefix or ""
        self._averaging = _Averaging(gradient_predivide_factor, num_groups, process_set)

    def _allreduce_grads(self):
        if not self._averaging.is_needed():
            return
        numbered = [(number, param) for number, param in enumerate(self._params) if param.grad_req != "null"]
        grads = [param.list_grad()[0] for _, param in numbered]
        small = [self._compression.compress(grad) for grad in grads]
        self._averaging.average([f"{self._prefix}{number}" for number, _ in numbered], [each for each, _ in small])
        for grad, (each, ctx) in zip(grads, small):
            if each is not grad:
                grad[:] = self._compression.decompress(each, ctx)
