"""What a tensor of PyTorch is to the engine."""

import operator

import torch

from ronde._ronde import TYPE_CODES

# Old versions do not have all types.
_CODES = {getattr(torch, name): code for name, code in TYPE_CODES.items() if hasattr(torch, name)}

# Asking for the device by name takes longer; old versions know no other way.
_is_cpu = operator.attrgetter("is_cpu") if hasattr(torch.Tensor, "is_cpu") else lambda tensor: tensor.device.type == "cpu"


def checked(tensor):
    """The tensor, if it is one of PyTorch's."""
    if not isinstance(tensor, torch.Tensor):
        kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}".removeprefix("builtins.")
        hint = ": convert it with torch.from_numpy(), or use ronde.numpy" if kind.startswith("numpy.") else ""
        raise TypeError(f"horovod.torch works on torch.Tensor, not {kind}{hint}")
    return tensor


def memory(tensor):
    code = _CODES.get(tensor.dtype)
    if code is None:
        raise ValueError(f"Tensor type {tensor.type()} is not supported.")
    return code, tensor.shape, tensor.data_ptr()


def plain(tensor, is_in_place):
    """The tensor where it is, contiguous and without its gradient."""
    if checked(tensor).requires_grad:
        tensor = tensor.detach()
    if tensor.is_sparse:
        raise ValueError(f"Tensor type {tensor.type()} is not supported.")
    is_contiguous = tensor.is_contiguous()
    if is_in_place and not is_contiguous:
        raise ValueError("an in-place operation needs a contiguous tensor")
    return tensor if is_contiguous else tensor.contiguous()


def stage(tensor, is_in_place):
    """The tensor itself if the engine can reach it, else a copy in the machine's memory."""
    tensor = plain(tensor, is_in_place)
    return tensor if _is_cpu(tensor) else tensor.cpu()


def like(tensor, shape):
    return torch.empty(shape, dtype=tensor.dtype)


def deliver(result, tensor, is_in_place):
    """The result on the caller's device; the caller's own tensor if the operation was in place."""
    if is_in_place:
        if not _is_cpu(tensor):
            tensor.detach().copy_(result)
        return tensor
    return result if _is_cpu(tensor) else result.to(tensor.device)


def splits(received):
    return torch.tensor(received, dtype=torch.int32)


def rows(splits):
    """Splits as numbers."""
    if torch.is_tensor(splits):
        if splits.dim() != 1:
            raise ValueError("alltoall expects a 1D splits tensor")
        if splits.dtype != torch.int32:
            raise ValueError("alltoall expects splits with 32-bit integer elements")
        splits = splits.tolist()
    if any(split < 0 for split in splits):
        raise ValueError(f"alltoall expects non-negative splits, not {splits}")
    return [int(split) for split in splits]
