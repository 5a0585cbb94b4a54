"""Operations of every framework: names, handles, waiting. What a tensor is, an adapter knows.

An adapter has `place(tensor)`, which gives type, shape and address of contiguous memory that the engine can reach,
`stage(tensor)`, which gives such a tensor, `like(tensor, shape)`, which makes a new one, and `deliver(result, like)`,
which brings a result where the caller's tensor is.
"""

import itertools
import warnings

from ronde._basics import basics
from ronde.process_sets import global_process_set

Average, Sum, Adasum, Min, Max, Product = range(6)

# Numbers of operations: names of those that have none, and handles, as Horovod's are. Counting is one step of the
# interpreter, so threads never get the same.
_numbers = itertools.count(1)
_pending: dict = {}


def _reset():
    global _numbers
    _numbers = itertools.count(1)
    _pending.clear()


basics.on_shutdown(_reset)


def _ask(adapter, job, number):
    """A job in the words of the engine.

    A job is a tuple, since one is made for every operation, of which there are thousands in a step: kind, what only
    that kind needs, pairs of a staged tensor and its target (None where the engine makes the result, or in place),
    whether it is a group and what the caller calls it, the process set, and how the outcome becomes what the caller
    gets.
    """
    kind, details, tensors, (is_group, given), process_set, _ = job
    set_number = process_set.process_set_id
    if set_number is None:
        raise ValueError(f"{kind}: Process set provided does not exist, or has not been registered.")
    prefix = f"grouped_{kind}" if is_group else kind
    name = f"{prefix}.{given}" if given is not None else f"{prefix}.noname.{number}"
    places = []
    for source, target in tensors:
        code, shape, address = adapter.place(source)
        places.append((code, shape, address, None if target is None else adapter.place(target)[2]))
    return (kind, details, name, places, set_number)


def start(adapter, job):
    """Puts an operation in; returns its handle."""
    engine = basics.engine
    handle = next(_numbers)
    _pending[handle] = engine.submit(_ask(adapter, job, handle), job[2]), job[-1]
    return handle


def run(adapter, job):
    """Does an operation; returns its result."""
    return job[-1](basics.engine.run(_ask(adapter, job, next(_numbers)), job[2]))


def poll(handle):
    """Whether synchronize() would return at once."""
    pending = _pending.get(handle)
    if pending is None:
        raise ValueError(f"there is no operation with the handle {handle}")
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
    native, finish = pending
    try:
        outcome = native.wait()
    except KeyboardInterrupt:
        raise
    except BaseException:
        _pending.pop(handle, None)
        raise
    _pending.pop(handle, None)
    return finish(outcome)


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
    if op not in (Average, Sum, Adasum, Min, Max, Product):
        raise ValueError(f"op must be one of Average, Sum, Adasum, Min, Max, Product, not {op!r}")


def allreduce(adapter, tensors, name, how, process_set, is_in_place, is_group):
    staged = [adapter.stage(each, is_in_place) for each in tensors]
    targets = [None if is_in_place else adapter.like(each, adapter.place(each)[1]) for each in staged]

    def finish(_):
        results = staged if is_in_place else targets
        results = [adapter.deliver(result, each, is_in_place) for result, each in zip(results, tensors)]
        return results if is_group else results[0]

    return "allreduce", how, list(zip(staged, targets)), (is_group, name), process_set, finish


def allreduce_in_place(adapter, tensor, name, how, process_set):
    """The same for the most frequent case, one tensor in place."""
    staged = adapter.stage(tensor, True)
    finish = lambda _: adapter.deliver(staged, tensor, True)  # noqa: E731
    return "allreduce", how, ((staged, None),), (False, name), process_set, finish


def broadcast(adapter, tensor, root, name, process_set, is_in_place):
    staged = adapter.stage(tensor, is_in_place)
    target = None if is_in_place else adapter.like(staged, adapter.place(staged)[1])

    def finish(_):
        return adapter.deliver(staged if is_in_place else target, tensor, is_in_place)

    return "broadcast", root, [(staged, target)], (False, name), process_set, finish


def made(adapter, kind, details, tensors, name, process_set, is_group):
    """Operations whose results the engine makes, because nobody else knows their shapes."""
    staged = [adapter.stage(each, False) for each in tensors]

    def finish(outcome):
        results = []
        for index, shape in enumerate(outcome.shapes):
            result = adapter.like(staged[index], tuple(shape))
            outcome.copy_to(index, adapter.place(result)[2])
            results.append(adapter.deliver(result, tensors[index], False))
        if kind == "alltoall":
            return results[0], adapter.splits(outcome.received_splits)
        return results if is_group else results[0]

    return kind, details, [(each, None) for each in staged], (is_group, name), process_set, finish


def barrier(process_set=global_process_set):
    """Waits until all members have come here."""
    run(None, ("barrier", None, [], (False, "noname"), process_set, lambda _: None))


def join():
    """Says that this rank has no more data; waits until nobody has, and returns the rank that was last."""
    return run(None, ("join", None, [], (False, "noname"), global_process_set, lambda outcome: outcome.last_joined))
