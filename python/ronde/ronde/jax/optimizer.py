"""Optimizers of Optax that apply everybody's gradients."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ronde._operations import Adasum, Average, check_op
from ronde.jax.compression import Compression
from ronde.jax.operations import grouped_allreduce
from ronde.process_sets import global_process_set


class AggregationState(NamedTuple):
    """The gradients of the passes that were not applied yet."""

    inner: Any
    sums: Any
    passes: Any


def DistributedOptimizer(
    optimizer,
    name=None,
    compression=Compression.none,
    backward_passes_per_step=1,
    op=Average,
    gradient_predivide_factor=1.0,
    average_aggregated_gradients=False,
    groups=None,
    process_set=global_process_set,
):
    """The Optax transformation, with gradients that are reduced over all ranks in `update`.

    All gradients are one operation; with `groups`, a number, they are as many, which may begin before the last
    gradient is computed.
    """
    import optax

    _check(op, gradient_predivide_factor, average_aggregated_gradients, groups)
    inner = optax.with_extra_args_support(optimizer)
    how = {"compression": compression, "op": op, "process_set": process_set}
    if gradient_predivide_factor != 1.0:
        how["prescale_factor"] = 1.0 / gradient_predivide_factor
        how["postscale_factor"] = gradient_predivide_factor

    def update(grads, state, params=None, **extra):
        return inner.update(_reduce(grads, name, groups, how), state, params, **extra)

    if backward_passes_per_step == 1:
        return optax.GradientTransformationExtraArgs(inner.init, update)
    return _aggregated(optax, inner.init, update, backward_passes_per_step, average_aggregated_gradients)


def _check(op, gradient_predivide_factor, average_aggregated_gradients, groups):
    check_op(op)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("Adasum does not support average_aggregated_gradients == True")
    if groups is not None and not (isinstance(groups, int) and groups > 0):
        raise ValueError(f"groups should be a positive number, not {groups!r}")


def _reduce(grads, name, groups, how):
    """The gradients of a pytree, reduced."""
    if not how["process_set"].included():
        return grads
    leaves, structure = jax.tree_util.tree_flatten(grads)
    count = min(groups or 1, len(leaves))
    results = []
    for number in range(count):
        part = leaves[len(leaves) * number // count : len(leaves) * (number + 1) // count]
        part_name = None if name is None else f"{name}.{number}"
        results.extend(grouped_allreduce(part, name=part_name, **how))
    return jax.tree_util.tree_unflatten(structure, results)


def _aggregated(optax, begin, update, passes, is_averaged):
    """The transformation, with the gradients of so many passes added up here before they are reduced."""
    tree_map = jax.tree_util.tree_map

    def init(params):
        return AggregationState(begin(params), tree_map(jnp.zeros_like, params), jnp.zeros([], jnp.int32))

    def add(grads, state, params=None, **extra):
        sums = tree_map(jnp.add, state.sums, grads)

        def apply(sums, inner):
            own = tree_map(lambda total: total / passes, sums) if is_averaged else sums
            updates, inner = update(own, inner, params, **extra)
            updates = tree_map(lambda new, total: new.astype(total.dtype), updates, sums)
            return updates, AggregationState(inner, tree_map(jnp.zeros_like, sums), jnp.zeros_like(state.passes))

        def wait(sums, inner):
            return tree_map(jnp.zeros_like, sums), AggregationState(inner, sums, state.passes + 1)

        return jax.lax.cond(state.passes + 1 == passes, apply, wait, sums, state.inner)

    return optax.GradientTransformationExtraArgs(init, add)
