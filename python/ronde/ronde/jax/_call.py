"""What an operation is asked to do, whether it is done at once or becomes part of a computation."""

import dataclasses
from typing import Optional

from ronde._operations import Sum


@dataclasses.dataclass(frozen=True)
class Call:
    """An operation without its tensors."""

    kind: str
    # The number of the reduction, or the root's rank.
    number: int = Sum
    prescale_factor: float = 1.0
    postscale_factor: float = 1.0
    process_set_id: int = 0
    # How many ranks take part, and which of them this one is.
    members: int = 1
    position: int = 0
    name: Optional[str] = None
    is_group: bool = False

    @property
    def is_elementwise(self):
        """Whether a result has the shape of its tensor, and each element comes of those in the same place."""
        return self.kind in ("allreduce", "broadcast")

    @property
    def title(self):
        return f"grouped_{self.kind}" if self.is_group else self.kind

    def result_shape(self, shape):
        """The shape of a result inside of a computation, where all ranks have tensors of the same shape."""
        if self.is_elementwise:
            return shape
        if not shape:
            raise ValueError(f"{self.kind} needs a tensor with rows, not a single number")
        rows, rest = shape[0], shape[1:]
        if self.kind == "allgather":
            return (rows * self.members, *rest)
        if self.kind == "reducescatter":
            share, more = divmod(rows, self.members)
            return (share + (self.position < more), *rest)
        if rows % self.members:
            raise ValueError(
                f"alltoall inside of jit sends the same number of rows to each of {self.members} ranks: "
                f"{rows} rows cannot be divided so"
            )
        return shape
