"""Operations inside of computations: the primitive that JAX traces, its shapes, batches, lowering and names.

To JAX an operation is a function of its tensors, like `jax.lax.psum`: every rank traces the same program, so what one
leaves out all leave out. XLA is told that a call has side effects and must be kept. It may run the calls of a
computation in any order, and many at once; they find each other by name.
"""

import collections
import itertools
import threading

import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from ronde._operations import Adasum
from ronde._ronde import jax_handler
from ronde.jax._compatible import ffi_lowering, register_ffi_target

_TARGET = "ronde_collective"
register_ffi_target(_TARGET, jax_handler(), platform="cpu")

_collective = Primitive("ronde_collective")
_collective.multiple_results = True
_empty = Primitive("ronde_empty")

# JAX lowers equal equations once, and calls the result for each: a number makes ours unlike each other.
_numbers = itertools.count()
# Where JAX keeps what it has lowered of a computation, to call it again.
_LOWERED = ("cached_primitive_lowerings", "lowering_cache")


def bind(call, tensors):
    """The operation, as a part of the computation that is being traced."""
    return _collective.bind(*tensors, call=call, number=next(_numbers))


def on_arrays(act):
    """Says how operations on arrays with values are done: those of a gradient outside of jit, for instance."""
    _collective.def_impl(lambda *tensors, call, number: act(call, tensors))


@_collective.def_abstract_eval
def _shapes(*tensors, call, number):
    return [ShapedArray(call.result_shape(tensor.shape), tensor.dtype) for tensor in tensors]


# --- vmap ------------------------------------------------------------------------------------------------------------


def _batched(tensors, dimensions, *, call, number):
    if call.kind == "allreduce" and call.number == Adasum:
        raise NotImplementedError("Adasum weighs a tensor as a whole: it cannot be vmapped")
    if not call.is_elementwise:
        # Rows stay first.
        pairs = list(zip(tensors, dimensions))
        tensors = [tensor if at is None else jnp.moveaxis(tensor, at, 1) for tensor, at in pairs]
        dimensions = [None if at is None else 1 for at in dimensions]
    return bind(call, tensors), dimensions


batching.primitive_batchers[_collective] = _batched


# --- lowering and names ----------------------------------------------------------------------------------------------


class _Names(threading.local):
    """The names of the computation that this thread lowers."""

    computation = None
    taken: collections.Counter = collections.Counter()


_names = _Names()


def _name(ctx, call):
    """The name under which ranks find each other: it depends on nothing but the computation itself."""
    computation = ctx.module_context.channel_iterator
    if computation is not _names.computation:
        _names.computation, _names.taken = computation, collections.Counter()
    given = call.name
    if given is None:
        given = ctx.module_context.module.operation.attributes["sym_name"].value
    name = f"{call.title}.{given}"
    again = _names.taken[name]
    _names.taken[name] += 1
    return f"{name}.{again}" if again or call.name is None else name


class _Unshared(dict):
    """What JAX has lowered of a computation until it came to an operation of ours, and nothing more."""

    def __setitem__(self, key, lowered):
        pass


def _lower_anew(context):
    """Lets JAX lower anew what encloses an operation wherever it occurs, so that each has a name of its own.

    A jitted function, the body of a loop, or what `jax.checkpoint` encloses would be lowered once otherwise, and called
    for each of its occurrences: operations that XLA may run in any order would have one name.
    """
    for name in _LOWERED:
        lowered = getattr(context, name, None)
        if type(lowered) is dict:
            setattr(context, name, _Unshared(lowered))


def _lower(ctx, *operands, call, number):
    _lower_anew(ctx.module_context)
    scale = f"{float(call.prescale_factor)!r} {float(call.postscale_factor)!r}"
    request = f"{call.kind} {int(call.number)} {scale} {call.process_set_id} {_name(ctx, call)}"
    return ffi_lowering(_TARGET, has_side_effect=True)(ctx, *operands, request=request)


def _refuse(ctx, *operands, call, number):
    places = " and ".join(ctx.module_context.platforms)
    raise NotImplementedError(
        f"{call.title} is compiled for {places}, and Ronde works on the CPU: "
        'run the computation there, for instance under jax.default_device(jax.devices("cpu")[0])'
    )


mlir.register_lowering(_collective, _refuse)
mlir.register_lowering(_collective, _lower, platform="cpu")


# --- memory ----------------------------------------------------------------------------------------------------------


def empty(shape, dtype):
    """An array that nobody has written to."""
    return _empty.bind(shape=shape, dtype=dtype)


@_empty.def_abstract_eval
def _empty_shape(*, shape, dtype):
    return ShapedArray(shape, dtype)


def _lower_empty(ctx, *, shape, dtype):
    # With side effects: equal calls must not become one.
    return ffi_lowering(_TARGET, has_side_effect=True)(ctx, request="empty")


mlir.register_lowering(_empty, _lower_empty, platform="cpu")
