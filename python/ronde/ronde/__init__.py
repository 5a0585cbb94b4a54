"""Collective operations for distributed training, with Horovod's API.

`ronde.numpy`, `ronde.torch` and `ronde.jax` have the operations on arrays and tensors; what concerns
no framework is here.

For who reads the code: `_settings.py` alone reads the environment and `_bootstrap.py` finds a
rendezvous where no launcher of ours runs one (`_pmi.py` speaks with MPICH's); `_basics.py` holds
the engine; `_operations.py` has all operations for any framework, over an adapter (`numpy.py`,
`torch/_adapter.py`, `jax/_arrays.py`) that knows what a tensor is; `torch/` is Horovod's API and, in
`torch/distributed/`, a backend of torch.distributed (registered by `_torch_backend.py`), `jax/` the same for JAX,
`elastic.py` the states and the loop of elastic jobs, which get their places through `_control_channel.py`;
`_launch.py` runs a function through `ronde run`, and `_task.py` is its ranks'
side. `python/horovod` has names only. What type checkers see is in the `.pyi` beside a module; a test
compares the two.
"""

from ronde._basics import *  # noqa: F403
from ronde._basics import __all__ as _names
from ronde._basics import basics as _basics
from ronde._objects import allgather_object, broadcast_object
from ronde._operations import Adasum, Average, Max, Min, Product, Sum, barrier, join
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
