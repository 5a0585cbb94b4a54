"""Collective operations for distributed training, with Horovod's API.

`ronde.numpy` and `ronde.torch` have the operations on arrays and tensors; what concerns no framework is here.
"""

from ronde._basics import *  # noqa: F403
from ronde._basics import __all__ as _names
from ronde._basics import basics as _basics
from ronde._objects import allgather_object, broadcast_object
from ronde._ops import Adasum, Average, Max, Min, Product, Sum, barrier, join
from ronde.exceptions import HorovodInternalError, HostsUpdatedInterrupt, MismatchError
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

__version__ = "0.1.0"
__all__ = [
    *_names,
    "Adasum",
    "Average",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "Max",
    "Min",
    "MismatchError",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather_object",
    "barrier",
    "broadcast_object",
    "global_process_set",
    "join",
    "remove_process_set",
]
