"""Operations of every framework: names, handles, waiting. What a tensor is, an adapter knows.

An adapter has `place(tensor)`, which gives type, shape and address of contiguous memory that the engine can reach,
`stage(tensor)`, which gives such a tensor, `like(tensor, shape)`, which makes a new one, and `deliver(result, like)`,
which brings a result where the caller's tensor is.
"""

from ronde._basics import basics
from ronde.process_sets import global_process_set

Average, Sum, Adasum, Min, Max, Product = range(6)

# Owned by the thread that calls; handles are numbers, as Horovod's are.
_last = 0
_pending: dict = {}


def _reset():
    global _last
    _last = 0
    _pending.clear()


basics.on_shutdown(_reset)


class _Pending:
    """An operation in flight, and how its outcome becomes what the caller gets."""

    def __init__(self, native, finish):
        self.native = native
        self.finish = finish


class Job:
    """An operation, ready to be put in."""

    def __init__(self, kind, details, tensors, name, process_set, finish):
        self.kind = kind
        self.details = details
        # Pairs of a staged tensor and its target; the target is None where the engine makes the result.
        self.tensors = tensors
        # Whether it is a group, and what the caller calls it.
        self.name = name
        self.process_set = process_set
        self.finish = finish


def _ask(adapter, job):
    global _last
    number = job.process_set.process_set_id
    if number is None:
        raise ValueError(f"{job.kind}: Process set provided does not exist, or has not been registered.")
    _last += 1
    is_group, given = job.name
    prefix = f"grouped_{job.kind}" if is_group else job.kind
    name = f"{prefix}.{given}" if given is not None else f"{prefix}.noname.{_last}"
    places = []
    for source, target in job.tensors:
        code, shape, address = adapter.place(source)
        places.append((code, shape, address, None if target is None else adapter.place(target)[2]))
    return (job.kind, job.details, name, places, number)


def start(adapter, job):
    """Puts an operation in; returns its handle."""
    engine = basics.engine
    native = engine.submit(_ask(adapter, job), job.tensors)
    handle = _last
    _pending[handle] = _Pending(native, job.finish)
    return handle


def run(adapter, job):
    """Does an operation; returns its result."""
    engine = basics.engine
    return job.finish(engine.run(_ask(adapter, job), job.tensors))


def poll(handle):
    """Whether synchronize() would return at once."""
    pending = _pending.get(handle)
    if pending is None:
        raise ValueError(f"there is no operation with the handle {handle}")
    return pending.native.poll()


def synchronize(handle):
    """Waits for an operation and returns its result; None if there is no such handle."""
    pending = _pending.get(handle)
    if pending is None:
        return None
    try:
        outcome = pending.native.wait()
    except KeyboardInterrupt:
        raise
    except BaseException:
        _pending.pop(handle, None)
        raise
    _pending.pop(handle, None)
    return pending.finish(outcome)


def reduce_op(op, average):
    """The reduction that the caller means, by the new argument or the old one."""
    import warnings

    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if average is not None:
        warnings.warn("Parameter `average` has been replaced with `op`", DeprecationWarning, stacklevel=3)
        return Average if average else Sum
    return Average if op is None else op


def allreduce(adapter, tensors, name, op, prescale, postscale, process_set, is_in_place, is_group):
    staged = [adapter.stage(each, is_in_place) for each in tensors]
    targets = [None if is_in_place else adapter.like(each, adapter.place(each)[1]) for each in staged]

    def finish(_):
        results = staged if is_in_place else targets
        results = [adapter.deliver(result, each, is_in_place) for result, each in zip(results, tensors)]
        return results if is_group else results[0]

    details = (op, float(prescale), float(postscale))
    return Job("allreduce", details, list(zip(staged, targets)), (is_group, name), process_set, finish)


def broadcast(adapter, tensor, root, name, process_set, is_in_place):
    staged = adapter.stage(tensor, is_in_place)
    target = None if is_in_place else adapter.like(staged, adapter.place(staged)[1])

    def finish(_):
        return adapter.deliver(staged if is_in_place else target, tensor, is_in_place)

    return Job("broadcast", root, [(staged, target)], (False, name), process_set, finish)


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

    return Job(kind, details, [(each, None) for each in staged], (is_group, name), process_set, finish)


def barrier(process_set=global_process_set):
    """Waits until all members have come here."""
    run(None, Job("barrier", None, [], (False, "noname"), process_set, lambda _: None))


def join():
    """Says that this rank has no more data; waits until nobody has, and returns the rank that was last."""
    return run(None, Job("join", None, [], (False, "noname"), global_process_set, lambda outcome: outcome.last_joined))
