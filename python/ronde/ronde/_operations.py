"""Operations of every framework: what is asked of the engine, names, handles, waiting, and the forms that callers know.

What a tensor is, an adapter knows. It has `memory(tensor)`, which gives the type code, shape and address of contiguous
memory that the engine can reach, `stage(tensor)`, which gives such a tensor, `like(tensor, shape)`, which makes a new
one, and `deliver(result, tensor)`, which brings a result where the caller's tensor is.
"""

import itertools
import warnings

from ronde._basics import basics
from ronde._ronde import REDUCTION_CODES
from ronde.process_sets import global_process_set

Average, Sum, Adasum, Min, Max, Product = REDUCTION_CODES.values()

# Numbers of operations: names of those that have none, and handles, as Horovod's are. Counting is one step of the
# interpreter, so threads never get the same.
_numbers = itertools.count(1)
_pending: dict = {}


def _reset():
    global _numbers
    _numbers = itertools.count(1)
    _pending.clear()


basics.on_shutdown(_reset)


class Operation:
    """What a call asks of the engine, and how its outcome becomes what the caller gets.

    The engine reads `kind`, `details`, which only that kind needs, `name` and `is_group`, `process_set_id`, and
    `memory`: of each tensor its type code, shape and address, and the address of its result (None if the engine makes
    the result, or in place). It keeps the operation, and with it the tensors, until it is done. There are thousands in
    a step: hence slots, and no more than one object for each.
    """

    __slots__ = ("adapter", "details", "is_group", "kind", "memory", "name", "process_set_id", "results", "staged", "tensors")

    def submit(self, engine, number):
        """Puts it in; returns the engine's handle."""
        return engine.submit(self, number)

    def result(self, outcome):
        """What the caller gets."""
        raise NotImplementedError


class _SameShape(Operation):
    """Allreduce and broadcast: results are like the tensors, so there is memory for them from the beginning."""

    __slots__ = ("is_in_place",)

    def __init__(self, adapter, kind, details, tensors, name, process_set, is_in_place, is_group):
        # One by one: more than three at once are put into a tuple first.
        self.adapter = adapter
        self.kind = kind
        self.details = details
        self.tensors = tensors
        self.name = name
        self.is_group = is_group
        self.process_set_id = process_set.process_set_id
        self.is_in_place = is_in_place
        self.memory = memory = []
        self.staged = staged = []
        self.results = results = staged if is_in_place else []
        for tensor in tensors:
            source = adapter.stage(tensor, is_in_place)
            code, shape, address = adapter.memory(source)
            target = None
            if not is_in_place:
                result = adapter.like(source, shape)
                target = adapter.memory(result)[2]
                results.append(result)
            staged.append(source)
            memory.append((code, shape, address, target))

    def result(self, outcome):
        deliver, is_in_place = self.adapter.deliver, self.is_in_place
        if not self.is_group:
            return deliver(self.results[0], self.tensors[0], is_in_place)
        return [deliver(result, tensor, is_in_place) for result, tensor in zip(self.results, self.tensors)]


class _NewShape(Operation):
    """Operations whose results the engine makes, because nobody else knows their shapes."""

    __slots__ = ()

    def __init__(self, adapter, kind, details, tensors, name, process_set, is_group):
        self.adapter, self.kind, self.details, self.tensors = adapter, kind, details, tensors
        self.name, self.is_group, self.process_set_id = name, is_group, process_set.process_set_id
        self.staged = [adapter.stage(tensor, False) for tensor in tensors]
        self.memory = [(*adapter.memory(source), None) for source in self.staged]

    def result(self, outcome):
        adapter, results = self.adapter, []
        for index, shape in enumerate(outcome.shapes):
            result = adapter.like(self.staged[index], tuple(shape))
            outcome.copy_to(index, adapter.memory(result)[2])
            results.append(adapter.deliver(result, self.tensors[index], False))
        if self.kind == "alltoall":
            return results[0], adapter.splits(outcome.received_splits)
        return results if self.is_group else results[0]


class _NoTensors(Operation):
    """Barrier, which gives nothing, and join, which gives the rank that was last."""

    __slots__ = ()

    def __init__(self, kind, process_set):
        self.kind, self.details, self.memory = kind, None, []
        self.name, self.is_group, self.process_set_id = "noname", False, process_set.process_set_id

    def result(self, outcome):
        return outcome.last_joined


def start(operation):
    """Puts an operation in; returns its handle."""
    engine = basics.engine
    handle = next(_numbers)
    _pending[handle] = operation.submit(engine, handle), operation
    return handle


def run(operation):
    """Does an operation; returns its result."""
    return operation.result(basics.engine.run(operation, next(_numbers)))


def poll(handle):
    """Whether synchronize() would return at once."""
    pending = _pending.get(handle)
    if pending is None:
        raise ValueError(f"no operation has the handle {handle}")
    return pending[0].poll()


def free_names():
    """Lets the names of all operations that are done be used again at once; their results stay."""
    for native, _ in list(_pending.values()):
        native.poll()


def synchronize(handle):
    """Waits for an operation and returns its result; None if there is no such handle."""
    pending = _pending.get(handle)
    if pending is None:
        return None
    native, operation = pending
    try:
        outcome = native.wait()
    except KeyboardInterrupt:
        raise
    except BaseException:
        _pending.pop(handle, None)
        raise
    _pending.pop(handle, None)
    return operation.result(outcome)


def chosen_groups(num_groups, groups):
    """The groups of an optimizer, by the newer of two arguments that mean the same."""
    if num_groups != 0:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`", DeprecationWarning, stacklevel=3)
    return num_groups if groups is None and num_groups != 0 else groups


def reduce_op(op, average):
    """The reduction that the caller means, by the new argument or the old one."""
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if average is not None:
        warnings.warn("Parameter `average` has been replaced with `op`", DeprecationWarning, stacklevel=3)
        return Average if average else Sum
    return Average if op is None else op


def check_op(op):
    """For what reduces much later: it is better told at once."""
    if op not in REDUCTION_CODES.values():
        raise ValueError(f"op must be one of {', '.join(REDUCTION_CODES)}, not {op!r}")


def barrier(process_set=global_process_set):
    """Waits until all members have come here."""
    run(_NoTensors("barrier", process_set))


def join():
    """Says that this rank has no more data; waits until nobody has, and returns the rank that was last."""
    return run(_NoTensors("join", global_process_set))


class Operations:
    """All operations on the tensors of one framework.

    `act` is `run`, which waits and returns the result, or `start`, which returns a handle.
    """

    def __init__(self, adapter, act):
        self._adapter = adapter
        self._act = act

    def _same_shape(self, kind, details, tensors, name, process_set, is_in_place, is_group):
        operation = _SameShape(self._adapter, kind, details, tensors, name, process_set, is_in_place, is_group)
        return self._act(operation)

    def _new_shape(self, kind, details, tensors, name, process_set, is_group):
        return self._act(_NewShape(self._adapter, kind, details, tensors, name, process_set, is_group))

    def allreduce(
        self,
        tensor,
        average=None,
        name=None,
        op=None,
        prescale_factor=1.0,
        postscale_factor=1.0,
        process_set=global_process_set,
    ):
        """Everybody's tensors, reduced to one that everybody gets."""
        reduction = reduce_op(op, average), prescale_factor, postscale_factor
        return self._same_shape("allreduce", reduction, (tensor,), name, process_set, False, False)

    def allreduce_(
        self,
        tensor,
        average=None,
        name=None,
        op=None,
        prescale_factor=1.0,
        postscale_factor=1.0,
        process_set=global_process_set,
    ):
        """The same, into the caller's own tensor."""
        reduction = reduce_op(op, average), prescale_factor, postscale_factor
        return self._same_shape("allreduce", reduction, (tensor,), name, process_set, True, False)

    def grouped_allreduce(
        self,
        tensors,
        average=None,
        name=None,
        op=None,
        prescale_factor=1.0,
        postscale_factor=1.0,
        process_set=global_process_set,
    ):
        """The same with many tensors, which are done together."""
        reduction = reduce_op(op, average), prescale_factor, postscale_factor
        return self._same_shape("allreduce", reduction, list(tensors), name, process_set, False, True)

    def grouped_allreduce_(
        self,
        tensors,
        average=None,
        name=None,
        op=None,
        prescale_factor=1.0,
        postscale_factor=1.0,
        process_set=global_process_set,
    ):
        """The same with many tensors, into the caller's own."""
        reduction = reduce_op(op, average), prescale_factor, postscale_factor
        return self._same_shape("allreduce", reduction, list(tensors), name, process_set, True, True)

    def allgather(self, tensor, name=None, process_set=global_process_set):
        """Everybody's rows, in the order of the ranks."""
        return self._new_shape("allgather", None, (tensor,), name, process_set, False)

    def grouped_allgather(self, tensors, name=None, process_set=global_process_set):
        """The same with many tensors, which are done together."""
        return self._new_shape("allgather", None, list(tensors), name, process_set, True)

    def broadcast(self, tensor, root_rank, name=None, process_set=global_process_set):
        """The root's tensor."""
        return self._same_shape("broadcast", root_rank, (tensor,), name, process_set, False, False)

    def broadcast_(self, tensor, root_rank, name=None, process_set=global_process_set):
        """The root's tensor, into the caller's own."""
        return self._same_shape("broadcast", root_rank, (tensor,), name, process_set, True, False)

    def alltoall(self, tensor, splits=None, name=None, process_set=global_process_set):
        """Rows to each member, as many as `splits` says; what came, and how many rows from each."""
        details = None if splits is None else self._adapter.rows(splits)
        return self._new_shape("alltoall", details, (tensor,), name, process_set, False)

    def reducescatter(
        self,
        tensor,
        name=None,
        op=Average,
        process_set=global_process_set,
        prescale_factor=1.0,
        postscale_factor=1.0,
    ):
        """Everybody's tensors, reduced, and of that this rank's share of the rows."""
        details = (op, prescale_factor, postscale_factor)
        return self._new_shape("reducescatter", details, (tensor,), name, process_set, False)

    def grouped_reducescatter(
        self,
        tensors,
        name=None,
        op=Average,
        process_set=global_process_set,
        prescale_factor=1.0,
        postscale_factor=1.0,
    ):
        """The same with many tensors, which are done together."""
        details = (op, prescale_factor, postscale_factor)
        return self._new_shape("reducescatter", details, list(tensors), name, process_set, True)
