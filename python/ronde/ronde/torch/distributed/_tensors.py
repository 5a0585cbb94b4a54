"""Tensors as the engine takes them: contiguous, flat, of its types or as bytes."""

import torch

from ronde._ronde import TYPE_CODES

CODES = {getattr(torch, name): code for name, code in TYPE_CODES.items() if hasattr(torch, name)}
_BYTES = TYPE_CODES["uint8"]


def source(tensor):
    """A tensor that the engine can read: the caller's own where possible."""
    if tensor.layout != torch.strided:
        raise ValueError(f"tensors of layout {tensor.layout} are not supported")
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def unit(tensor):
    """How many elements one of a tensor's is to the engine: more than one if it is bytes."""
    return 1 if tensor.dtype in CODES else tensor.element_size()


def memory(tensor, rows=None):
    """A source as (type code, shape, address, None): flat, or cut into rows. What the engine cannot compute with, it can
    still carry."""
    code, count = CODES.get(tensor.dtype, _BYTES), tensor.numel() * unit(tensor)
    shape = (count,) if rows is None else (rows, count // rows if rows else 0)
    return code, shape, tensor.data_ptr(), None


def copy(outcome, index, target):
    """Brings a result to a tensor of its size."""
    if target.is_contiguous() and not target.is_conj() and not target.is_neg():
        outcome.copy_to(index, target.data_ptr())
    else:
        whole = torch.empty(target.shape, dtype=target.dtype)
        outcome.copy_to(index, whole.data_ptr())
        target.detach().copy_(whole)


def flat(outcome, index, like, count):
    """A result as a flat tensor of so many elements, of another one's type."""
    whole = torch.empty(count, dtype=like.dtype)
    outcome.copy_to(index, whole.data_ptr())
    return whole


def put(targets, whole):
    """Cuts a flat tensor among others, in order."""
    at = 0
    for target in targets:
        target.detach().copy_(whole[at : at + target.numel()].view(target.shape))
        at += target.numel()


def together(tensors):
    """Tensors of one type, flat, one after the other."""
    check_alike(tensors)
    return torch.cat([source(tensor).view(-1) for tensor in tensors]) if tensors else torch.empty(0)


def check_alike(tensors):
    types = {tensor.dtype for tensor in tensors}
    if len(types) > 1:
        raise ValueError(f"tensors of one operation have different types: {', '.join(sorted(map(str, types)))}")


def check_size(what, wanted, found):
    if wanted != found:
        raise ValueError(f"{what} must have {wanted} elements, not {found}")
