"""The operations as callers know them, on the tensors of any framework.

What waits for its result and what returns a handle differ in the last step only.
"""

from ronde import _ops
from ronde._ops import Average
from ronde.process_sets import global_process_set


class Operations:
    """`act` is `_ops.run`, which waits and returns the result, or `_ops.start`, which returns a handle."""

    def __init__(self, adapter, act):
        self._adapter = adapter
        self._act = act

    def _reduce(self, tensors, name, how, process_set, is_in_place, is_group):
        job = _ops.allreduce(self._adapter, list(tensors), name, how, process_set, is_in_place, is_group)
        return self._act(self._adapter, job)

    def _make(self, kind, details, tensors, name, process_set, is_group):
        job = _ops.made(self._adapter, kind, details, list(tensors), name, process_set, is_group)
        return self._act(self._adapter, job)

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
        how = _ops.reduce_op(op, average), prescale_factor, postscale_factor
        return self._reduce([tensor], name, how, process_set, False, False)

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
        how = _ops.reduce_op(op, average), prescale_factor, postscale_factor
        return self._act(self._adapter, _ops.allreduce_in_place(self._adapter, tensor, name, how, process_set))

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
        how = _ops.reduce_op(op, average), prescale_factor, postscale_factor
        return self._reduce(tensors, name, how, process_set, False, True)

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
        how = _ops.reduce_op(op, average), prescale_factor, postscale_factor
        return self._reduce(tensors, name, how, process_set, True, True)

    def allgather(self, tensor, name=None, process_set=global_process_set):
        """Everybody's rows, in the order of the ranks."""
        return self._make("allgather", None, [tensor], name, process_set, False)

    def grouped_allgather(self, tensors, name=None, process_set=global_process_set):
        """The same with many tensors, which are done together."""
        return self._make("allgather", None, tensors, name, process_set, True)

    def broadcast(self, tensor, root_rank, name=None, process_set=global_process_set):
        """The root's tensor."""
        job = _ops.broadcast(self._adapter, tensor, root_rank, name, process_set, False)
        return self._act(self._adapter, job)

    def broadcast_(self, tensor, root_rank, name=None, process_set=global_process_set):
        """The root's tensor, into the caller's own."""
        job = _ops.broadcast(self._adapter, tensor, root_rank, name, process_set, True)
        return self._act(self._adapter, job)

    def alltoall(self, tensor, splits=None, name=None, process_set=global_process_set):
        """Rows to each member, as many as `splits` says; what came, and how many rows from each."""
        details = None if splits is None else self._adapter.rows(splits)
        return self._make("alltoall", details, [tensor], name, process_set, False)

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
        return self._make("reducescatter", details, [tensor], name, process_set, False)

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
        return self._make("reducescatter", details, tensors, name, process_set, True)
