from typing import Any, Optional

from ronde._objects import allgather_object as allgather_object
from ronde._objects import broadcast_object as broadcast_object

def broadcast_parameters(params: Any, root_rank: int = 0, prefix: Optional[str] = None) -> None: ...

__all__ = ["allgather_object", "broadcast_object", "broadcast_parameters"]
