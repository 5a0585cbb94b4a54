"""Collective operations and distributed training for JAX, inside of `jax.jit` and outside."""

from ronde._frameworks import require as _require

_require("jax")

from ronde._basics import *  # noqa: F403
from ronde._basics import __all__ as _names
from ronde._operations import Adasum, Average, Max, Min, Product, Sum, barrier, join
from ronde.exceptions import HorovodInternalError, HostsUpdatedInterrupt, MismatchError
from ronde.jax import _interrupts, elastic
from ronde.jax.compression import Compression
from ronde.jax.functions import allgather_object, broadcast_object, broadcast_parameters
from ronde.jax.operations import (
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    pmean,
    psum,
    reducescatter,
)
from ronde.jax.optimizer import DistributedOptimizer
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

_interrupts.watch()

__all__ = [
    *_names,
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "Max",
    "Min",
    "MismatchError",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_parameters",
    "elastic",
    "global_process_set",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "pmean",
    "psum",
    "reducescatter",
    "remove_process_set",
]
