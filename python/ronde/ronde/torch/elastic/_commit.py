"""Commits of a training with torch.distributed: what a rank keeps of the state, and how a new ring makes the state of it.

Tensors that all ranks have are copied. Of sharded ones (DTensors, as FSDP2 makes them) each rank copies its own pieces
and sends them to one other rank, its partner, on another host where there is one: so nothing is lost when a rank or a host
dies. Before ranks leave by plan, some of each host get all pieces, since owner and partner may both go. Pieces say where
in the whole tensor they belong, so that any number of ranks can cut it anew.
"""

import copy
import itertools
import pickle
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

try:
    from torch.distributed.tensor import DTensor, Replicate, Shard, _redistribute, debug
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
except ImportError:
    # Before 2.5 nothing of torch.distributed shards by DTensors that users know of.
    DTensor = ()

# Pieces begin at multiples of it, so that they can be seen as tensors of any type.
_ALIGNMENT = 16


@dataclass
class _Leaf:
    """Stands for a tensor in a state of which the tensors have been taken out."""

    number: int


@dataclass
class Form:
    """What is known of a tensor without having it."""

    is_sharded: bool
    shape: torch.Size
    dtype: torch.dtype


@dataclass
class Commit:
    """The state at one moment, as far as this rank keeps it."""

    # The number of the commit, and of the ring it was made in.
    key: tuple
    size: int
    skeleton: object = None
    forms: list = field(default_factory=list)
    # Tensors that all ranks have, by their numbers.
    wholes: dict = field(default_factory=dict)
    # Pieces of sharded tensors: by the rank that had them, where they belong and what is in them.
    boxes: dict = field(default_factory=dict)
    pieces: dict = field(default_factory=dict)

    @property
    def is_sharded(self):
        return any(form.is_sharded for form in self.forms)

    def summary(self):
        """What others have to know of it."""
        return Summary(self.key, self.size if self.is_sharded else 0, self.boxes)


@dataclass
class Summary:
    key: tuple
    # Of how many ranks pieces are needed.
    size: int
    boxes: dict


def newest(told):
    """The key of the newest commit that is whole, by the summaries of all ranks; None if nobody has any."""
    keys = sorted({each.key for of_rank in told for each in of_rank}, reverse=True)
    lost = []
    for key in keys:
        summaries = [each for of_rank in told for each in of_rank if each.key == key]
        lost = sorted(set(range(summaries[0].size)).difference(*(each.boxes for each in summaries)))
        if not lost:
            return key
    if keys:
        names = ", ".join(map(str, lost))
        raise ValueError(f"the shards of rank{'s' if len(lost) > 1 else ''} {names} are lost: those who kept them died too")
    return None


@dataclass
class Place:
    """Where a rank is: the launcher lets the last ones of a host go first, and the oldest worker of all last."""

    host: str
    local_rank: int
    worker: int


def partners(places):
    """Who keeps the pieces of each rank: the next rank on another host, or else the next one."""
    size = len(places)
    found = []
    for rank, place in enumerate(places):
        others = [(rank + step) % size for step in range(1, size)]
        elsewhere = [each for each in others if places[each].host != place.host]
        found.append((elsewhere or others)[:1])
    return found


def partners_before_leaving(places):
    """Who keeps the pieces of each rank before some leave."""
    oldest = min(range(len(places)), key=lambda rank: places[rank].worker)
    staying = [rank for rank, place in enumerate(places) if place.local_rank == 0 or rank == oldest]
    return [[each for each in staying if each != rank] for rank in range(len(places))]


def forget_meshes():
    """Lets DTensors forget what they remember by mesh: a mesh of as many ranks as an earlier one is equal to it, but has
    another group, and this rank another place in it."""
    if DTensor:
        debug._clear_sharding_prop_cache()
        getattr(_redistribute, "clear_redistribute_planner_cache", lambda: None)()


# --- taking ------------------------------------------------------------------------------------------------------------


def take(state, key, partners, before=None):
    """Copies a state, together with all ranks if some of it is sharded. Memory of a commit that is given up is used again."""
    leaves = []
    commit = Commit(key, len(partners), _without_tensors(state, leaves))
    shards = []
    for number, tensor in enumerate(leaves):
        is_sharded = isinstance(tensor, DTensor)
        commit.forms.append(Form(is_sharded, tensor.shape, tensor.dtype))
        if is_sharded:
            shards.append(tensor)
        else:
            commit.wholes[number] = _copied(tensor, before and before.wholes.get(number))
    if shards:
        boxes, data = _packed(shards)
        commit.boxes, commit.pieces = _exchanged(boxes, data, partners)
    return commit


def _without_tensors(value, leaves):
    """The value with a mark for each tensor, which goes to the leaves."""
    if isinstance(value, torch.Tensor):
        leaves.append(value.detach())
        return _Leaf(len(leaves) - 1)
    if isinstance(value, dict):
        # A shallow copy first: it keeps the type and what models note beside their tensors.
        result = copy.copy(value)
        for key in value:
            result[key] = _without_tensors(value[key], leaves)
        return result
    if type(value) in (list, tuple):
        return type(value)(_without_tensors(each, leaves) for each in value)
    return copy.deepcopy(value)


def _copied(tensor, before):
    if before is not None and before.shape == tensor.shape and before.dtype == tensor.dtype:
        return before.copy_(tensor)
    return tensor.to("cpu", copy=True)


def _packed(shards):
    """Where this rank's pieces belong, and the pieces, one after the other."""
    boxes, locals_, size = [], [], 0
    for tensor in shards:
        # Subclasses are other layouts.
        if any(type(placement) not in (Replicate, Shard) for placement in tensor.placements):
            raise ValueError(f"a tensor that is sharded by {tensor.placements} cannot be committed")
        mesh = tensor.device_mesh
        if int(mesh.mesh[tuple(mesh.get_coordinate())]) != dist.get_rank():
            raise RuntimeError(f"a tensor is sharded over {mesh}, which was made in an earlier ring: make meshes in build()")
        local = tensor.to_local()
        shape, offset = _place(tensor)
        boxes.append((tuple(offset), tuple(shape)))
        locals_.append((size, local))
        size += _aligned(local.numel() * local.element_size())
    data = torch.empty(size, dtype=torch.uint8)
    for at, local in locals_:
        _piece(data, at, local.dtype, local.shape).copy_(local)
    return boxes, data


def _place(tensor):
    return compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)


def _aligned(size):
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _piece(data, at, dtype, shape):
    size = shape.numel() * dtype.itemsize
    return data[at : at + size].view(dtype).view(shape)


def _exchanged(boxes, data, partners):
    """Gives this rank's pieces to its partners; returns those that are here then, by the ranks that had them."""
    rank, size = dist.get_rank(), len(partners)
    all_boxes, all_data = {rank: boxes}, {rank: data}
    if size == 1:
        return all_boxes, all_data
    text = pickle.dumps(boxes)
    header = torch.zeros(_aligned(len(text)), dtype=torch.uint8)
    header[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    lengths = torch.empty(size, 2, dtype=torch.int64)
    dist.all_gather_into_tensor(lengths, torch.tensor([[len(header), len(data)]]))
    owners = [owner for owner in range(size) if rank in partners[owner]]
    sent = [len(header) + len(data) if each in partners[rank] else 0 for each in range(size)]
    received = [int(lengths[each].sum()) if each in owners else 0 for each in range(size)]
    heard = torch.empty(sum(received), dtype=torch.uint8)
    parts = [header, data] * len(partners[rank])
    dist.all_to_all_single(heard, torch.cat(parts) if parts else header[:0], received, sent)
    for owner, part in zip(owners, heard.split([received[owner] for owner in owners])):
        length = int(lengths[owner, 0])
        all_boxes[owner] = pickle.loads(part[:length].numpy().tobytes())
        # The header is not kept, nor what came with it for others.
        all_data[owner] = part[length:].clone()
    return all_boxes, all_data


# --- giving back -------------------------------------------------------------------------------------------------------


def give(commit, told, key, is_first):
    """Makes the tensors of a commit, together with all ranks: what sharded ones are like now, `Given.state` is told.

    `commit` is this rank's of that key, if it has one; `told` are the summaries of all ranks.
    """
    holders = [rank for rank, summaries in enumerate(told) if any(each.key == key for each in summaries)]
    source = holders[0]
    is_sent = is_first or len(holders) < len(told)
    known = [(commit.skeleton, commit.forms) if commit is not None else None]
    if is_sent:
        dist.broadcast_object_list(known, source)
    skeleton, forms = known[0]
    wholes, works = {}, []
    for number, form in enumerate(forms):
        if form.is_sharded:
            continue
        own = commit.wholes[number] if commit is not None and (not is_sent or dist.get_rank() == source) else None
        # Not the commit's own: an optimizer goes on with the tensors that it is given.
        wholes[number] = torch.empty(form.shape, dtype=form.dtype) if own is None else own.clone()
        if is_sent:
            works.append(dist.broadcast(wholes[number], source, async_op=True))
    for work in works:
        work.wait()
    return Given(skeleton, forms, wholes, commit, _Pieces(told, key, forms))


class _Pieces:
    """Who gives the pieces of each rank of the ring in which a commit was made."""

    def __init__(self, told, key, forms):
        held = [next((each.boxes for each in summaries if each.key == key), {}) for summaries in told]
        owners = sorted(set().union(*held))
        giver = {owner: next(rank for rank, boxes in enumerate(held) if owner in boxes) for owner in owners}
        self.boxes = {owner: held[giver[owner]][owner] for owner in owners}
        self.of_giver = [[owner for owner in owners if giver[owner] == rank] for rank in range(len(told))]
        sharded = [number for number, form in enumerate(forms) if form.is_sharded]
        self.index = {number: index for index, number in enumerate(sharded)}
        self.starts = {owner: self._starts(boxes, [forms[number] for number in sharded]) for owner, boxes in self.boxes.items()}

    @staticmethod
    def _starts(boxes, forms):
        sizes = [_aligned(torch.Size(shape).numel() * form.dtype.itemsize) for (_, shape), form in zip(boxes, forms)]
        return list(itertools.accumulate(sizes, initial=0))


class Given:
    """A state whose sharded tensors are put together one by one, while it is loaded."""

    def __init__(self, skeleton, forms, wholes, commit, pieces):
        self._skeleton, self._forms, self._wholes = skeleton, forms, wholes
        self._commit, self._pieces = commit, pieces

    def state(self, name, like=None):
        """A part of the state; `like` finds the tensor of today for the path of a sharded one."""
        return self._with_tensors(self._skeleton[name], (), like)

    def _with_tensors(self, value, path, like):
        if isinstance(value, _Leaf):
            form = self._forms[value.number]
            return self._cut(value.number, form, like(path)) if form.is_sharded else self._wholes[value.number]
        if isinstance(value, dict):
            result = copy.copy(value)
            for key in value:
                result[key] = self._with_tensors(value[key], (*path, key), like)
            return result
        if type(value) in (list, tuple):
            return type(value)(self._with_tensors(each, (*path, index), like) for index, each in enumerate(value))
        return copy.deepcopy(value)

    def _cut(self, number, form, like):
        """This rank's piece of today; all ranks come here with the same tensor."""
        if not isinstance(like, DTensor) or like.shape != form.shape:
            raise ValueError(f"a sharded tensor of shape {tuple(form.shape)} has no counterpart in what was built anew")
        whole = self._together(number, form)
        shape, offset = _place(like)
        own = whole[_slices(offset, shape)].contiguous().to(like.device)
        return DTensor.from_local(
            own, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
        )

    def _together(self, number, form):
        """The whole tensor, of the pieces of all ranks."""
        pieces, index = self._pieces, self._pieces.index[number]
        own = []
        for owner in pieces.of_giver[dist.get_rank()]:
            shape = torch.Size(pieces.boxes[owner][index][1])
            own.append(_piece(self._commit.pieces[owner], pieces.starts[owner][index], form.dtype, shape).view(-1))
        own = torch.cat(own) if own else torch.empty(0, dtype=form.dtype)
        counts = [
            [torch.Size(pieces.boxes[owner][index][1]).numel() for owner in owners] for owners in pieces.of_giver
        ]
        heard = [torch.empty(sum(each), dtype=form.dtype) for each in counts]
        dist.all_gather(heard, own)
        whole = torch.empty(form.shape, dtype=form.dtype)
        for owners, sizes, part in zip(pieces.of_giver, counts, heard):
            for owner, piece in zip(owners, part.split(sizes)):
                offset, shape = pieces.boxes[owner][index]
                whole[_slices(offset, shape)] = piece.view(shape)
        return whole


def _slices(offset, shape):
    return tuple(slice(begin, begin + size) for begin, size in zip(offset, shape))
