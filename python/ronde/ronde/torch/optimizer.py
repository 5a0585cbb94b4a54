"""An optimizer that averages gradients over all ranks while they are still being computed."""

import warnings
from contextlib import contextmanager

import torch

from ronde import _operations, _settings
from ronde._basics import basics
from ronde._objects import broadcast_object
from ronde._operations import Adasum, Average
from ronde.process_sets import global_process_set
from ronde.torch import _async
from ronde.torch.compression import Compression


class _DistributedOptimizer(torch.optim.Optimizer):
    """Methods that are put on top of the user's own optimizer class."""

    _plain_step = False

    def _set_up(self, named_parameters, options):
        self._compression = options["compression"]
        self.backward_passes_per_step = options["backward_passes_per_step"]
        self.op = options["op"]
        self.gradient_predivide_factor = options["gradient_predivide_factor"]
        self.sparse_as_dense = options["sparse_as_dense"]
        self.process_set = options["process_set"]
        self._parameter_names = _names(self.param_groups, named_parameters)
        # A step of another optimizer may have been interrupted a moment ago; parameters of both may have the same names.
        _operations.free_names()
        self._handles = {}
        self._grad_accs = []
        self._made_dense = set()
        self._requires_update = set()
        self._synchronized = False
        self._should_synchronize = True
        self._allreduce_delay = {}
        self._groups, self._group_counts = {}, {}
        is_member = self.process_set.included()
        if is_member and (self.process_set.size() > 1 or _settings.is_elastic()):
            self._make_groups(options["groups"])
            self._register_hooks()

    def _parameters(self):
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]

    def _make_groups(self, groups):
        if groups is None or groups == 0:
            return
        if isinstance(groups, int):
            # The first rank's order, so that everybody cuts alike.
            names = [self._parameter_names[p] for p in self._parameters()]
            root = self.process_set.ranks[0]
            names = broadcast_object(names, root, "optimizer.groups", self.process_set)
            by_name = {self._parameter_names[p]: p for p in self._parameters()}
            order = [by_name[name] for name in names]
            length, longer = divmod(len(order), groups)
            ends = [i * length + min(i, longer) for i in range(groups + 1)]
            groups = [order[start:end] for start, end in zip(ends, ends[1:])]
        for number, members in enumerate(groups):
            members = tuple(p for p in members if p.requires_grad)
            for p in members:
                self._groups[p] = number, members
            self._group_counts[number] = 0

    def _register_hooks(self):
        for p in self._parameters():
            self._requires_update.add(p)
            self._allreduce_delay[p] = self.backward_passes_per_step
            accumulator = p.expand_as(p).grad_fn.next_functions[0][0]
            accumulator.register_hook(self._make_hook(p))
            self._grad_accs.append(accumulator)

    def _make_hook(self, p):
        def hook(*_):
            if p in self._handles and self._handles[p][0] is not None and self._allreduce_delay[p] <= 0:
                raise AssertionError(
                    "Gradients were computed more than backward_passes_per_step times before call to step(). "
                    "Increase backward_passes_per_step to accumulate gradients locally."
                )
            assert not p.grad.requires_grad
            assert self._allreduce_delay[p] > 0
            self._allreduce_delay[p] -= 1
            if self._allreduce_delay[p] == 0:
                self._is_ready(p)

        return hook

    def _is_ready(self, p):
        """Begins to reduce a gradient, or its group when it is complete."""
        if p not in self._groups:
            self._handles[p] = self._reduce_one(p)
            return
        number, members = self._groups[p]
        self._handles[p] = None, None
        self._group_counts[number] += 1
        if self._group_counts[number] == len(members):
            self._group_counts[number] = 0
            self._reduce_group(number, members)

    def _scales(self):
        factor = self.gradient_predivide_factor
        return (1.0, 1.0) if factor == 1.0 else (1.0 / factor, factor)

    def _gradient(self, p):
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        if p.grad.is_sparse and self.sparse_as_dense:
            self._made_dense.add(p)
            p.grad = p.grad.to_dense()
        if not p.grad.is_sparse and not p.grad.is_contiguous():
            p.grad = p.grad.contiguous()
        return p.grad

    def _reduce_one(self, p):
        name, grad = self._parameter_names[p], self._gradient(p)
        if grad.is_sparse:
            return _async.sparse_allreduce_async(grad, name, self.op, self.process_set), None
        small, ctx = self._compression.compress(grad)
        handle = _async.allreduce_async_(small, None, name, self.op, *self._scales(), self.process_set)
        return handle, (ctx, small)

    def _reduce_group(self, number, members):
        compressed = [self._compression.compress(self._gradient(p)) for p in members]
        tensors = [small for small, _ in compressed]
        how = None, f"group.{number}", self.op, *self._scales(), self.process_set
        handle = _async.grouped_allreduce_async_(tensors, *how)
        for p, (small, ctx) in zip(members, compressed):
            self._handles[p] = handle, (ctx, small)

    def synchronize(self):
        """Waits for all gradients."""
        if not self._requires_update:
            self._synchronized = True
            return
        for p in [p for p in self._parameters() if p in self._requires_update and p not in self._handles]:
            self._is_ready(p)
        waited = set()
        for p in self._parameters():
            handle, ctx = self._handles.get(p, (None, None))
            if handle is None:
                continue
            if callable(handle):
                p.grad = handle()
            else:
                if handle not in waited:
                    _operations.synchronize(handle)
                    waited.add(handle)
                ctx, small = ctx
                if small is not p.grad:
                    p.grad.copy_(self._compression.decompress(small, ctx))
            self._allreduce_delay[p] = self.backward_passes_per_step
        for p in self._made_dense:
            p.grad = p.grad.to_sparse()
        self._made_dense.clear()
        self._handles.clear()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self):
        """Within it, step() does not wait: synchronize() has been called."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure=None):
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(). This can cause training slowdown. You may want to consider using "
                    "optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code."
                )
            self.synchronize()
        self._synchronized = False
        return super(self.__class__, self).step(closure)

    def zero_grad(self, *args, **kwargs):
        if self._handles:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                "optimizer.synchronize(). This is prohibited as it can cause a race condition."
            )
        return super(self.__class__, self).zero_grad(*args, **kwargs)

    def set_backward_passes_per_step(self, passes):
        self.backward_passes_per_step = passes
        for p in self._allreduce_delay:
            self._allreduce_delay[p] = passes

    def load_state_dict(self, *args, **kwargs):
        self._handles = {}
        self._synchronized = False
        self._should_synchronize = True
        self._group_counts = dict.fromkeys(self._group_counts, 0)
        for p in self._allreduce_delay:
            self._allreduce_delay[p] = self.backward_passes_per_step
        super(self.__class__, self).load_state_dict(*args, **kwargs)


class _DistributedAdasumOptimizer(torch.optim.Optimizer):
    """Steps alone, then combines the differences that the steps made."""

    _plain_step = False

    def _set_up(self, named_parameters, options):
        self._compression = options["compression"]
        self.backward_passes_per_step = options["backward_passes_per_step"]
        self.process_set = options["process_set"]
        self._parameter_names = _names(self.param_groups, named_parameters)
        _operations.free_names()

    def synchronize(self):
        """There is nothing to wait for before step()."""

    def set_backward_passes_per_step(self, passes):
        """Gradients add up until step() is called, however many passes that are."""
        self.backward_passes_per_step = passes

    @contextmanager
    def skip_synchronize(self):
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")
        yield

    def step(self, closure=None):
        members = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        before = [p.detach().clone() for p in members]
        loss = super(self.__class__, self).step(closure)
        handles = []
        with torch.no_grad():
            for p, start in zip(members, before):
                small, ctx = self._compression.compress(p - start)
                name = f"adasum.{self._parameter_names[p]}"
                handle = _async.allreduce_async_(small, name=name, op=Adasum, process_set=self.process_set)
                handles.append((handle, ctx))
            for p, start, (handle, ctx) in zip(members, before, handles):
                p.copy_(start + self._compression.decompress(_operations.synchronize(handle), ctx))
        return loss

    def zero_grad(self, *args, **kwargs):
        return super(self.__class__, self).zero_grad(*args, **kwargs)


def _names(param_groups, named_parameters):
    """Every parameter's name: the user's, or one by its place."""
    if named_parameters is None:
        return {
            p: f"allreduce.noname.{group_number}.{number}"
            for group_number, group in enumerate(param_groups)
            for number, p in enumerate(group["params"])
        }
    named_parameters = list(named_parameters)
    if any(not isinstance(each, tuple) for each in named_parameters):
        raise ValueError("named_parameters should be a sequence of tuples (name, parameter)")
    names = [name for name, _ in named_parameters]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}")
    named = {p for _, p in named_parameters}
    unnamed = sum(p not in named for group in param_groups for p in group["params"])
    if unnamed:
        raise ValueError(f"named_parameters was specified, but {unnamed} model parameters were not named")
    return {p: name for name, p in named_parameters}


def DistributedOptimizer(
    optimizer,
    named_parameters=None,
    compression=Compression.none,
    backward_passes_per_step=1,
    op=Average,
    gradient_predivide_factor=1.0,
    num_groups=0,
    groups=None,
    sparse_as_dense=False,
    process_set=global_process_set,
):
    """An optimizer of the same class that reduces gradients over the members of a process set before it steps."""
    _operations.check_op(op)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    _check_groups(groups)
    is_adasum = op == Adasum and basics.size() > 1
    methods = dict((_DistributedAdasumOptimizer if is_adasum else _DistributedOptimizer).__dict__)
    for unwanted in ("__dict__", "__weakref__"):
        methods.pop(unwanted, None)
    wrapped = type(optimizer.__class__.__name__, (optimizer.__class__,), methods)
    result = wrapped.__new__(wrapped)
    # Parameters and state are shared with the original; a `step` that a scheduler has put on it is not taken.
    result.__dict__.update({key: value for key, value in optimizer.__dict__.items() if key != "step"})
    options = {
        "compression": compression,
        "backward_passes_per_step": backward_passes_per_step,
        "op": op,
        "gradient_predivide_factor": gradient_predivide_factor,
        "groups": groups,
        "sparse_as_dense": sparse_as_dense,
        "process_set": process_set,
    }
    result._set_up(named_parameters, options)
    return result


def _check_groups(groups):
    if groups is None:
        return
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
    elif not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
        raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
    elif len({p for group in groups for p in group}) != sum(map(len, groups)):
        raise ValueError("groups must be disjoint: a parameter is in two of them")
