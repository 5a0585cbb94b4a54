"""A process group: torch's collectives, each as one operation of the engine.

Operations of a group are numbered in program order, which is the same on all members; two that disagree about what
number 7 is get an error that names them. What torch has and the engine has not is made of what it has: gather and
scatter are alltoalls in which one side is empty, a reduction by bits is an allgather with the rest done here.
"""

import itertools
import math
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from ronde.torch.distributed import _ring
from ronde.torch.distributed._compiler import untraced
from ronde.torch.distributed._devices import OtherDevices, by_device
from ronde.torch.distributed._lanes import Lanes
from ronde.torch.distributed._reductions import Reduction
from ronde.torch.distributed._tensors import check_alike, check_size, copy, flat, memory, put, source, together, unit
from ronde.torch.distributed._work import Batch, Finished, Work, error_of

NAME = "ronde"


class Group(dist.ProcessGroup):
    """A whole process group, and in newer versions' words also its one backend.

    A backend written in Python could be beside others, but torch hides its works behind objects that do not know
    whether they are done. So the group is ours, and tensors of other devices go to groups of the backends that the
    caller named for them.
    """

    supports_splitting = False
    supports_coalescing = False
    _name = _description = "undefined"

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._others = OtherDevices(self)
        self.store, self.timeout = store, timeout
        self._number = itertools.count()
        self._done_numbers = 0
        self._lanes = Lanes(self)
        self._limit = None
        self._coalesced = None
        self._barriers = itertools.count()
        try:
            self._engine, self._scope = _ring.form(store, "ronde/ring", rank, size, timeout)
        except (RuntimeError, ValueError) as error:
            raise error_of(f"rank {rank} of {size} cannot form the group", error) from None

    # --- one operation ------------------------------------------------------------------------------------------

    def _do(self, kind, details, tensors, opts, result, finish=None, keep=None):
        """Puts an operation in; waits for it if the caller would do nothing else."""
        number = next(self._number)
        self._done_numbers = number + 1
        operation = (f"#{number}", kind, details, tensors)
        what = f"{kind} #{number}"
        if self._coalesced is None and not getattr(opts, "asyncOp", True):
            work = Finished(what, result)
            try:
                outcome = self._engine.start(operation, (result, keep), True).wait(self._limit)
                if finish is not None:
                    finish(work, outcome)
            except TimeoutError:
                self.shutdown()
                raise dist.DistBackendError(f"ronde: {what}: timed out after {self._limit:g} s") from None
            except (RuntimeError, ValueError) as error:
                raise error_of(what, error) from None
            return work
        work = Work(what, result, finish, self._limit)
        work.begin(self._engine, operation, (result, keep))
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    # --- reductions ---------------------------------------------------------------------------------------------

    def allreduce(self, tensors, opts=None):
        return self._allreduce(tensors, opts, range(self.size()))

    def allreduce_coalesced(self, tensors, opts=None):
        return self._allreduce(tensors, opts, range(self.size()))

    def reduce(self, tensors, opts):
        return self._allreduce(tensors, opts, [opts.rootRank])

    def _allreduce(self, tensors, opts, receivers):
        """Members that receive nothing keep what they have."""
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        reductions = [Reduction(op, tensor.dtype) for tensor in tensors]
        sources = [source(tensor) for tensor in tensors]
        is_receiver = self.rank() in receivers
        if any(reduction.details is None for reduction in reductions):
            return self._reduce_here(reductions, sources, opts, tensors, tensors if is_receiver else [])
        described = [memory(each) for each in sources]
        if not is_receiver:
            spare = [torch.empty_like(each) for each in sources]
            described = [(*each[:3], other.data_ptr()) for each, other in zip(described, spare)]
            return self._do("allreduce", reductions[0].details, described, opts, tensors, None, (sources, spare))
        moved = [(one, other) for one, other in zip(tensors, sources) if one.data_ptr() != other.data_ptr()]
        finish = (lambda *_: [tensor.detach().copy_(made) for tensor, made in moved]) if moved else None
        return self._do("allreduce", reductions[0].details, described, opts, tensors, finish, sources)

    def _reduce_here(self, reductions, sources, opts, result, targets, cut=None):
        """What the engine cannot reduce is gathered and reduced by torch; of that a part may be wanted."""

        def finish(_, outcome):
            for index, target in enumerate(targets):
                each = sources[index]
                parts = flat(outcome, index, each, self.size() * each.numel()).view(self.size(), each.numel())
                parts = parts if cut is None else parts[:, cut(each)]
                target.detach().copy_(reductions[index].reduce(list(parts)).view(target.shape))

        return self._do("allgather", None, [memory(each, 1) for each in sources], opts, result, finish, sources)

    def reduce_scatter(self, outputs, inputs, opts):
        sizes = [each.numel() for each in inputs[0]]
        if len(sizes) != self.size():
            raise ValueError(f"reduce_scatter takes a tensor for each of {self.size()} members, not {len(sizes)}")
        check_size("the output", sizes[self.rank()], outputs[0].numel())
        return self._reduce_scatter(outputs, [together(inputs[0])], opts, sizes)

    def reduce_scatter_single(self, output, input, opts):
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts):
        for output, each in zip(outputs, inputs):
            check_size("the input", self.size() * output.numel(), each.numel())
        return self._reduce_scatter(outputs, [source(each) for each in inputs], opts, None)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(self, outputs, sources, opts, sizes):
        """Each member gets its part of the flat sources; all parts are of one size if `sizes` does not say other ones."""
        check_alike([*outputs, *sources])
        reductions = [Reduction(opts.reduceOp, each.dtype) for each in sources]
        is_even = sizes is None or len(set(sizes)) == 1
        rank = self.rank()

        def own(each):
            counts = sizes or [each.numel() // self.size()] * self.size()
            return slice(sum(counts[:rank]), sum(counts[: rank + 1]))

        if any(reduction.details is None for reduction in reductions):
            return self._reduce_here(reductions, sources, opts, outputs, outputs, own)
        if is_even and reductions[0].is_scattered:
            described = [memory(each, self.size()) for each in sources]

            def finish(_, outcome):
                for index, output in enumerate(outputs):
                    copy(outcome, index, output)

            return self._do("reducescatter", reductions[0].details, described, opts, outputs, finish, sources)
        spare = [torch.empty_like(each) for each in sources]
        described = [(*memory(each)[:3], other.data_ptr()) for each, other in zip(sources, spare)]

        def take_own(*_):
            for output, whole in zip(outputs, spare):
                output.detach().copy_(whole.view(-1)[own(whole)].view(output.shape))

        return self._do("allreduce", reductions[0].details, described, opts, outputs, take_own, (sources, spare))

    # --- gathering ----------------------------------------------------------------------------------------------

    def all_gather_single(self, output, input, opts=None):
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        sources = [source(each) for each in inputs]
        for output, each in zip(outputs, sources):
            check_alike([output, each])
            check_size("the output", self.size() * each.numel(), output.numel())

        def finish(_, outcome):
            for index, output in enumerate(outputs):
                copy(outcome, index, output)

        return self._do("allgather", None, [memory(each, 1) for each in sources], opts, outputs, finish, sources)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather(self, outputs, inputs, opts=None):
        """A list of outputs for each input; those of a list may be of different sizes, as the members' inputs then are."""
        sources = [source(each) for each in inputs]
        described = []
        for targets, each in zip(outputs, sources):
            check_alike([*targets, each])
            check_size("the list of outputs", self.size(), len(targets))
            check_size("this rank's own output", each.numel(), targets[self.rank()].numel())
            is_even = len({target.numel() for target in targets}) == 1
            described.append(memory(each, 1 if is_even else None))

        def finish(_, outcome):
            for index, targets in enumerate(outputs):
                count = sum(target.numel() for target in targets)
                self._check_received(outcome, index, sources[index], count)
                put(targets, flat(outcome, index, sources[index], count))

        result = [target for targets in outputs for target in targets]
        return self._do("allgather", None, described, opts, result, finish, sources)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        """The same, but with a list of outputs for each member."""
        return self.allgather([list(each) for each in zip(*outputs)], inputs, opts)

    def _check_received(self, outcome, index, like, count):
        received, wanted = math.prod(outcome.shapes[index]), count * unit(like)
        if received != wanted:
            raise ValueError(f"the members' tensors have {received} elements together, the outputs {wanted}")

    # --- one to all, all to one ---------------------------------------------------------------------------------

    def broadcast(self, tensors, opts):
        (tensor,) = tensors
        each = source(tensor)
        moved = each.data_ptr() != tensor.data_ptr()
        finish = (lambda *_: tensor.detach().copy_(each)) if moved else None
        return self._do("broadcast", opts.rootRank, [memory(each)], opts, tensors, finish, each)

    def gather(self, outputs, inputs, opts):
        (tensor,) = inputs
        targets = outputs[0] if self.rank() == opts.rootRank else []
        for target in targets:
            check_alike([target, tensor])
            check_size("each output", tensor.numel(), target.numel())
        return self._gather(targets, tensor, opts, [target for targets in outputs for target in targets])

    def gather_single(self, output, input, opts):
        is_root = self.rank() == opts.rootRank
        if is_root:
            check_alike([output, input])
            check_size("the output", self.size() * input.numel(), output.numel())
        return self._gather([output] if is_root else [], input, opts, [output] if is_root else [])

    gather_into_tensor = gather_single

    def _gather(self, targets, tensor, opts, result):
        each = source(tensor)
        splits = [int(member == opts.rootRank) for member in range(self.size())]

        def finish(_, outcome):
            put(targets, flat(outcome, 0, each, self.size() * each.numel()))

        return self._do("alltoall", splits, [memory(each, 1)], opts, result, finish if targets else None, each)

    def scatter(self, outputs, inputs, opts):
        (output,) = outputs
        is_root = self.rank() == opts.rootRank
        whole = together(inputs[0]) if is_root else torch.empty(0, dtype=output.dtype)
        if is_root:
            check_size("the list of inputs", self.size(), len(inputs[0]))
            check_alike([output, whole])
            check_size("the inputs together", self.size() * output.numel(), whole.numel())
        code, _, address, _ = memory(whole)
        rows = self.size() if is_root else 0
        described = (code, (rows, output.numel() * unit(output)), address, None)

        def finish(_, outcome):
            copy(outcome, 0, output)

        return self._do("alltoall", [int(is_root)] * self.size(), [described], opts, outputs, finish, whole)

    # --- all to all ---------------------------------------------------------------------------------------------

    def all_to_all_single(self, output, input, output_splits, input_splits, opts=None):
        check_alike([output, input])
        sent, received = self._splits("input", input, input_splits), self._splits("output", output, output_splits)
        each = source(input)
        rows = each.shape[0] if each.dim() else 1
        code, _, address, _ = memory(each)
        # There may be no row to count.
        row = math.prod(each.shape[1:]) * unit(each)

        def finish(_, outcome):
            if outcome.received_splits != received:
                raise ValueError(f"the members sent {outcome.received_splits} rows to this rank, which expected {received}")
            copy(outcome, 0, output)

        described = [(code, (rows, row), address, None)]
        return self._do("alltoall", sent, described, opts, [output], finish, each)

    alltoall_base = all_to_all_single

    def _splits(self, which, tensor, splits):
        rows = tensor.shape[0] if tensor.dim() else 1
        if splits:
            if len(splits) != self.size() or sum(splits) != rows:
                raise ValueError(f"the splits of the {which}, {list(splits)}, must be {self.size()} and add up to its {rows} rows")
            return list(splits)
        if rows % self.size():
            raise ValueError(f"the {rows} rows of the {which} cannot be split evenly among {self.size()} members")
        return [rows // self.size()] * self.size()

    def alltoall(self, outputs, inputs, opts=None):
        check_alike([*outputs, *inputs])
        whole = together(inputs)
        received = [output.numel() * unit(whole) for output in outputs]

        def finish(_, outcome):
            if outcome.received_splits != received:
                sent = outcome.received_splits
                raise ValueError(f"the members sent {sent} elements to this rank, which expected {received}")
            put(outputs, flat(outcome, 0, whole, sum(output.numel() for output in outputs)))

        sent = [each.numel() * unit(whole) for each in inputs]
        return self._do("alltoall", sent, [memory(whole)], opts, outputs, finish, whole)

    # --- barriers -----------------------------------------------------------------------------------------------

    @untraced
    def barrier(self, opts=None):
        return self._do("barrier", None, [], opts, [])

    @untraced
    def monitored_barrier(self, opts=None, wait_all_ranks=False):
        """A barrier through the store, so that who is missing can be named: the first member waits for each."""
        timeout = getattr(opts, "timeout", opts)
        timeout = timeout if timeout is not None and timeout.total_seconds() >= 0 else self.timeout
        # Another group may have had this store and this name.
        prefix = f"ronde/barrier/{self._scope}/{next(self._barriers)}"
        deadline = time.monotonic() + timeout.total_seconds()
        if self.rank() != 0:
            self.store.set(f"{prefix}/{self.rank()}", "")
            return self._await(f"{prefix}/0", deadline, [0], timeout)
        missing = []
        for rank in range(1, self.size()):
            try:
                self._await(f"{prefix}/{rank}", deadline, [rank], timeout)
            except dist.DistBackendError:
                if not wait_all_ranks:
                    raise
                missing.append(rank)
        if missing:
            raise self._missing(missing, timeout)
        return self.store.set(f"{prefix}/0", "")

    def _await(self, key, deadline, ranks, timeout):
        left = timedelta(seconds=max(deadline - time.monotonic(), 0.001))
        try:
            self.store.wait([key], left)
        except RuntimeError:
            raise self._missing(ranks, timeout) from None

    def _missing(self, ranks, timeout):
        names = ", ".join(map(str, ranks))
        text = f"rank{'s' if len(ranks) > 1 else ''} {names} did not come within {timeout.total_seconds():g} s"
        return dist.DistBackendError(f"ronde: monitored_barrier: rank {self.rank()} waited, but {text}")

    # --- messages -----------------------------------------------------------------------------------------------

    def send(self, tensors, dst, tag=0):
        (tensor,) = tensors
        return self._noted(self._lanes.to(dst).send(source(tensor), tag))

    def recv(self, tensors, src, tag=0):
        return self._noted(self._lanes.receive(src, tag, tensors, self._reader(tensors)))

    def recv_anysource(self, tensors, tag=0):
        return self._noted(self._lanes.receive_any(tag, tensors, self._reader(tensors)))

    def _reader(self, tensors):
        (tensor,) = tensors

        def take(peer, received):
            wanted = tensor.numel() * tensor.element_size()
            if received.numel() != wanted:
                raise ValueError(
                    f"rank {peer} sent {received.numel()} bytes, and rank {self.rank()} expected {wanted}"
                )
            tensor.detach().copy_(received.view(tensor.dtype).view(tensor.shape) if wanted else tensor.detach())

        return take

    def _noted(self, work):
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    # --- the rest -----------------------------------------------------------------------------------------------

    def start_coalescing(self):
        self._coalesced = []

    def end_coalescing(self):
        works, self._coalesced = self._coalesced or [], None
        return Batch("coalesced operations", works)

    def _start_coalescing(self, device=None):
        self.start_coalescing()

    def _end_coalescing(self, device=None):
        return self.end_coalescing()

    def shutdown(self):
        """Leaves the group; what is in flight fails, here and on the other members."""
        self._others.close()
        self._lanes.close()
        _ring.leave(self._engine)

    def abort(self):
        self.shutdown()

    def set_timeout(self, timeout):
        self.timeout, self._limit = timeout, timeout.total_seconds()

    _set_default_timeout = set_timeout

    def supports_tensor_alloc(self, device):
        return False

    def getBackendName(self):
        return NAME

    _get_backend_name = name = getBackendName

    @property
    def _device_types(self):
        """None until torch has the group in its list: one that says more is expected to be torch's own."""
        return [torch.device(device) for device in self._others.configured()]

    def _get_backend(self, device):
        device = torch.device(device).type
        return self if device == "cpu" else self._others.group(device)._get_backend(torch.device(device))

    get_backend = _get_backend

    @property
    def group_name(self):
        return self._name

    def getGroupName(self):
        return self._name

    def setGroupName(self, name):
        self._name = name

    _set_group_name = setGroupName

    @property
    def group_desc(self):
        return self._description

    def getGroupDesc(self):
        return self._description

    def setGroupDesc(self, description):
        self._description = description

    _set_group_desc = setGroupDesc

    def _set_sequence_number_for_group(self):
        """Numbers begin at 0 everywhere."""

    def _get_sequence_number_for_group(self):
        return self._done_numbers

    getSequenceNumberForGroup = _get_sequence_number_for_group


for _name in [
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_coalesced",
    "_allgather_base",
    "allgather_into_tensor_coalesced",
    "allgather",
    "allgather_coalesced",
    "broadcast",
    "gather",
    "gather_single",
    "gather_into_tensor",
    "scatter",
    "all_to_all_single",
    "alltoall_base",
    "alltoall",
    "send",
    "recv",
    "recv_anysource",
]:
    setattr(Group, _name, by_device(_name, getattr(Group, _name)))
