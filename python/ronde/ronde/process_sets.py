"""Sets of ranks that work together apart from the others."""

from ronde._basics import basics


class ProcessSet:
    """Ranks, sorted; it has a number once it is registered."""

    process_set_id = None

    def __init__(self, ranks_or_comm):
        if hasattr(ranks_or_comm, "Get_group"):
            raise ValueError("a process set is a list of ranks; MPI communicators are not supported")
        self.ranks = sorted({int(rank) for rank in ranks_or_comm})
        self.mpi_comm = None

    def _invalidate(self):
        self.process_set_id = None

    def included(self):
        """Whether this rank is a member; None before the set is registered."""
        if self.process_set_id is None:
            return None
        return basics.rank() in self.ranks

    def rank(self):
        """This rank's number among the members; None before the set is registered."""
        if self.process_set_id is None:
            return None
        if not self.included():
            raise ValueError(f"rank {basics.rank()} is not a member of {self}")
        return self.ranks.index(basics.rank())

    def size(self):
        return None if self.process_set_id is None else len(self.ranks)

    def __eq__(self, other):
        if not isinstance(other, ProcessSet):
            return NotImplemented
        return self.ranks == other.ranks and self.process_set_id == other.process_set_id

    __hash__ = object.__hash__

    def __str__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    __repr__ = __str__


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0
_registered = []
# How often a number has been given to a set of this ring: numbers are used again.
_uses: dict = {}
_on_remove: list = []


def begin(owner, wanted):
    """After init(): the set of all ranks is known, and the static sets are made, in the same order everywhere."""
    global_process_set.ranks = list(range(owner.size()))
    _registered.clear()
    _uses.clear()
    seen = [global_process_set.ranks]
    for each in wanted:
        if each.ranks in seen:
            raise ValueError(f"{each} is listed twice, or is the set of all ranks")
        seen.append(each.ranks)
        _add(each)


def end():
    for each in _registered:
        each._invalidate()
    _registered.clear()
    global_process_set.ranks = []


basics.on_shutdown(end)


def _add(process_set):
    process_set.process_set_id = basics.engine.add_process_set(process_set.ranks)
    _uses[process_set.process_set_id] = uses(process_set.process_set_id) + 1
    _registered.append(process_set)
    return process_set


def on_remove(action):
    """For who works for a set: called with its number when it is gone."""
    _on_remove.append(action)


def uses(number):
    """How often a set of this ring got this number; the same on all ranks."""
    return _uses.get(number, 0)


def _check_dynamic():
    basics.engine
    if not basics._is_dynamic:
        raise ValueError("process sets are static: set HOROVOD_DYNAMIC_PROCESS_SETS=1 or init(process_sets='dynamic')")


def add_process_set(process_set):
    """Registers a set; returns when all ranks have asked for the same."""
    _check_dynamic()
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise ValueError(f"{process_set} is already registered")
    if process_set.ranks in basics.engine.process_sets().values():
        raise ValueError(f"a process set with the ranks {process_set.ranks} is already registered")
    return _add(process_set)


def remove_process_set(process_set):
    """Removes a set; returns when all ranks have asked for the same. False if there is nothing to remove."""
    _check_dynamic()
    if not process_set.process_set_id:
        return False
    basics.engine.remove_process_set(process_set.process_set_id)
    for action in _on_remove:
        action(process_set.process_set_id)
    _registered.remove(process_set)
    process_set._invalidate()
    return True
