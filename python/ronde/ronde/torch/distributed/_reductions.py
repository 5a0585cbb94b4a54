"""What torch calls a reduction, in the engine's words; and those that the engine does not have."""

import torch
from torch.distributed import ReduceOp

from ronde._ronde import REDUCTION_CODES
from ronde.torch.distributed._tensors import CODES

# By what a ReduceOp says that it is: comparing with each costs more than a small operation.
_ENGINE = {
    ReduceOp.SUM: REDUCTION_CODES["Sum"],
    ReduceOp.AVG: REDUCTION_CODES["Average"],
    ReduceOp.MIN: REDUCTION_CODES["Min"],
    ReduceOp.MAX: REDUCTION_CODES["Max"],
    ReduceOp.PRODUCT: REDUCTION_CODES["Product"],
}
_LOCAL = {
    ReduceOp.SUM: torch.add,
    ReduceOp.AVG: torch.add,
    ReduceOp.PREMUL_SUM: torch.add,
    ReduceOp.MIN: torch.minimum,
    ReduceOp.MAX: torch.maximum,
    ReduceOp.PRODUCT: torch.mul,
    ReduceOp.BAND: torch.bitwise_and,
    ReduceOp.BOR: torch.bitwise_or,
    ReduceOp.BXOR: torch.bitwise_xor,
}
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_SCATTERED = (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)


class Reduction:
    """A reduction of tensors of one type; `details` is for the engine, None if it cannot do it."""

    __slots__ = ("details", "factor", "is_scattered", "kind")

    def __init__(self, op, dtype):
        self.kind = kind = getattr(op, "op", op)
        self.factor = 1.0
        if kind == ReduceOp.PREMUL_SUM:
            self.factor = _factor(op)
        if kind in _BITWISE and (dtype.is_floating_point or dtype.is_complex):
            raise ValueError(f"{_name(kind)} needs integers or bools, not {dtype}")
        if kind not in _LOCAL:
            raise ValueError(f"reductions by {_name(kind)} are not supported")
        is_scaled = kind == ReduceOp.AVG or self.factor != 1.0
        if dtype == torch.bool and is_scaled:
            raise ValueError("bool tensors cannot be averaged or scaled")
        self.details = None
        self.is_scattered = kind in _SCATTERED
        # Averages of integers are cut off towards zero in torch, and so are those of each rank's scaled part.
        if dtype in CODES and kind not in _BITWISE and not (is_scaled and not dtype.is_floating_point):
            self.details = (_ENGINE.get(kind, REDUCTION_CODES["Sum"]), self.factor, 1.0)

    def reduce(self, parts):
        """Reduces tensors of all members, in their order."""
        parts = [part * self.factor if self.factor != 1.0 else part for part in parts]
        total = parts[0]
        for part in parts[1:]:
            total = _LOCAL[self.kind](total, part)
        if self.kind == ReduceOp.AVG:
            mode = None if total.is_floating_point() or total.is_complex() else "trunc"
            total = torch.div(total, len(parts), rounding_mode=mode)
        return total


def _factor(op):
    factor = op.__getstate__()[1]
    if isinstance(factor, torch.Tensor):
        if factor.numel() != 1:
            raise ValueError("PREMUL_SUM needs a factor that is one number")
        factor = factor.item()
    return float(factor)


def _name(kind):
    return f"ReduceOp.{getattr(kind, 'name', kind)}"
