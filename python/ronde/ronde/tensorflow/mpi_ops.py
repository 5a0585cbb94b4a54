"""All operations, in the module where Horovod has them, and their gradients."""

import functools
import re

import numpy as np
import tensorflow as tf

from ronde._basics import *  # noqa: F403
from ronde._basics import __all__ as _names
from ronde._basics import basics as _basics
from ronde._operations import Adasum, Average, Max, Min, Product, Sum
from ronde._operations import reduce_op as handle_average_backwards_compatibility
from ronde.process_sets import ProcessSet, global_process_set
from ronde.tensorflow import _native
from ronde.tensorflow.util import _executing_eagerly, is_compiled_by_xla

_functions, IS_NATIVE = _native.load()

# As the extension has registered them.
_DEFAULTS = {
    "ignore_name_scope": 0,
    "postscale_factor": 1.0,
    "prescale_factor": 1.0,
    "process_set_id": 0,
    "reduce_op": Sum,
    "root_rank": 0,
}


def _check_has_gpu():
    return bool(tf.config.list_physical_devices("GPU"))


def _normalize_name(name):
    """A name that TensorFlow takes for a node."""
    return re.sub("[^a-zA-Z0-9_]", "_", name)


def _tensor(value):
    """The value as a tensor: variables of Keras have it inside."""
    # What is one already goes through several layers of TensorFlow otherwise.
    return value if isinstance(value, tf.Tensor) else tf.convert_to_tensor(value)


@functools.cache
def _function(operation):
    return getattr(_functions, re.sub("(?<!^)(?=[A-Z])", "_", operation).lower())


def _run(operation, tensors, name, ignore_name_scope, process_set, **options):
    """Does an operation at once, or puts it into the graph.

    In a graph the node's name is what ranks find each other by; a name that is given is that of the node. Outside of
    graphs there are no nodes, and operations come one after the other.
    """
    number = process_set.process_set_id
    if number is None or (number != 0 and number not in _basics._get_process_set_ids_and_ranks()):
        raise ValueError(f"{operation}: Process set provided does not exist, or has not been registered.")
    options.update(process_set_id=number, ignore_name_scope=int(ignore_name_scope))
    if _executing_eagerly():
        attributes = ["is_inline", 1, "tensor_name", name or ""]
        for option, value in options.items():
            if value != _DEFAULTS[option]:
                attributes += option, value
        return _run_at_once(operation, tensors, attributes)
    if is_compiled_by_xla():
        raise NotImplementedError(
            f"{operation} cannot be part of a function that XLA compiles: pass jit_compile=False (to `compile`, with "
            "Keras), or compile the forward pass alone and reduce outside of it"
        )
    if name is None:
        first, *_, last = [*_flat(tensors)] * 2 or [None, None]
        about = "" if first is None else f"_{first.name}" if first is last else f"_{first.name}_{last.name}"
        name = f"{operation}{about}"
    return _function(operation)(*tensors, name=_normalize_name(name), **options)


def _run_at_once(operation, tensors, attributes):
    """Does an operation now, with the names and values of attributes in turn.

    The function that TensorFlow generates does the same, but with every attribute, and each takes its time.
    """
    if IS_NATIVE:
        run, context = _functions.pywrap_tfe.TFE_Py_FastPathExecute, _functions._context.context()
        try:
            return run(context, operation, None, *tensors, *attributes)
        except _functions._core._NotOkStatusException as error:
            _functions._ops.raise_from_not_ok_status(error, None)
        except _functions._core._FallbackException:
            pass
    return _function(operation)(*tensors, **dict(zip(attributes[::2], attributes[1::2])))


def _flat(tensors):
    for each in tensors:
        if isinstance(each, (list, tuple)):
            yield from each
        else:
            yield each


def _set_by_number(number):
    """A process set that is known by its number: an operation in a graph has no more."""
    found = ProcessSet(_basics._get_process_set_ids_and_ranks().get(number, []))
    found.process_set_id = number
    return found


_temp_process_set_object = _set_by_number


def _allreduce(
    tensor,
    name=None,
    op=Sum,
    prescale_factor=1.0,
    postscale_factor=1.0,
    ignore_name_scope=False,
    process_set=global_process_set,
):
    how = {"reduce_op": op, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return _run("HorovodAllreduce", [_tensor(tensor)], name, ignore_name_scope, process_set, **how)


def _grouped_allreduce(
    tensors,
    name=None,
    op=Sum,
    prescale_factor=1.0,
    postscale_factor=1.0,
    ignore_name_scope=False,
    process_set=global_process_set,
):
    tensors = [_tensor(tensor) for tensor in tensors]
    how = {"reduce_op": op, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return list(_run("HorovodGroupedAllreduce", [tensors], name, ignore_name_scope, process_set, **how))


def allgather(tensor, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Everybody's rows, in the order of the ranks."""
    return _run("HorovodAllgather", [_tensor(tensor)], name, ignore_name_scope, process_set)


def grouped_allgather(tensors, name=None, ignore_name_scope=False, process_set=global_process_set):
    """The same with many tensors, which are done together."""
    tensors = [_tensor(tensor) for tensor in tensors]
    return list(_run("HorovodGroupedAllgather", [tensors], name, ignore_name_scope, process_set))


def broadcast(tensor, root_rank, name=None, ignore_name_scope=False, process_set=global_process_set):
    """The root's tensor."""
    return _run("HorovodBroadcast", [_tensor(tensor)], name, ignore_name_scope, process_set, root_rank=root_rank)


def broadcast_(variables, root_rank, name=None, process_set=global_process_set):
    """The root's values, into the caller's own variables; returns them."""
    results = []
    for index, variable in enumerate(variables):
        own = _variable_name(variable) if name is None else f"{name}_{index}"
        assigned = variable.assign(broadcast(variable, root_rank, own, process_set=process_set))
        with tf.control_dependencies([] if _executing_eagerly() or assigned is None else [assigned]):
            results.append(variable.read_value() if hasattr(variable, "read_value") else _tensor(variable))
    return results


def _variable_name(variable):
    # The name of a Keras 3 variable says little; its path says where it is.
    return _normalize_name(f"HorovodBroadcast_{getattr(variable, 'path', variable.name)}")


def alltoall(tensor, splits=None, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Rows to each member, as many as `splits` says; with splits also how many came from each."""
    tensor = _tensor(tensor)
    rows = tf.convert_to_tensor(np.zeros(0, np.int32) if splits is None else splits, dtype=tf.int32)
    if rows.shape.rank not in (None, 1):
        raise ValueError("alltoall expects a 1D splits tensor")
    output, received = _run("HorovodAlltoall", [tensor, rows], name, ignore_name_scope, process_set)
    if tensor.shape.rank is not None:
        output = tf.ensure_shape(output, [None, *tensor.shape[1:]])
    return output if splits is None else (output, received)


def _reducescatter(
    tensor,
    name=None,
    op=Average,
    ignore_name_scope=False,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    how = {"reduce_op": op, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return _run("HorovodReducescatter", [_tensor(tensor)], name, ignore_name_scope, process_set, **how)


def _grouped_reducescatter(
    tensors,
    name=None,
    op=Average,
    ignore_name_scope=False,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    tensors = [_tensor(tensor) for tensor in tensors]
    how = {"reduce_op": op, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return list(_run("HorovodGroupedReducescatter", [tensors], name, ignore_name_scope, process_set, **how))


def join(name=None):
    """Says that this rank has no more data; the rank that was last, when nobody has."""
    return _run("HorovodJoin", [], name or "HorovodJoin", False, global_process_set)


# --- who we are, asked when the graph runs: in an elastic job that is not what it was when the graph was made ------


def _ask(question, name):
    answer = tf.numpy_function(lambda: np.int32(question()), [], tf.int32, stateful=True, name=name)
    answer.set_shape([])
    return answer


def size_op(process_set_id=0, name=None):
    return _ask(lambda: len(_basics._get_process_set_ids_and_ranks()[process_set_id]), name or "HorovodSize")


def process_set_included_op(process_set_id=0, name=None):
    def is_member():
        ranks = _basics._get_process_set_ids_and_ranks().get(process_set_id)
        return -1 if ranks is None else int(_basics.rank() in ranks)

    return _ask(is_member, name or "HorovodProcessSetIncluded")


def local_size_op(name=None):
    return _ask(_basics.local_size, name or "HorovodLocalSize")


def rank_op(name=None):
    return _ask(_basics.rank, name or "HorovodRank")


def local_rank_op(name=None):
    return _ask(_basics.local_rank, name or "HorovodLocalRank")


# --- gradients ---------------------------------------------------------------------------------------------------


def _option(op, name):
    """An attribute; an operation that was done at once has those that were given."""
    try:
        return op.get_attr(name)
    except KeyError:
        return _DEFAULTS[name]


def _how(op):
    """An operation's arguments, for its gradient."""
    return {
        "op": _option(op, "reduce_op"),
        "prescale_factor": _option(op, "prescale_factor"),
        "postscale_factor": _option(op, "postscale_factor"),
        **_where(op),
    }


def _where(op):
    return {
        "ignore_name_scope": bool(_option(op, "ignore_name_scope")),
        "process_set": _set_by_number(_option(op, "process_set_id")),
    }


def _allreduce_grad(op, grad):
    return _allreduce(grad, **_how(op))


def _grouped_allreduce_grad(op, *grads):
    return _grouped_allreduce(grads, **_how(op))


def _own_rows(op, grads):
    """Of the averages of all ranks' gradients, the rows that are this rank's."""
    where = _where(op)
    rank = where["process_set"].rank()
    grads = [_allreduce(grad, op=Average, **where) for grad in grads]
    rows = tf.stack([tf.shape(each)[0] for each in op.inputs])
    everybodys = tf.reshape(allgather(rows, **where), [-1, len(grads)])
    before = tf.reduce_sum(everybodys[:rank], axis=0)
    return [grad[before[index] : before[index] + rows[index]] for index, grad in enumerate(grads)]


def _allgather_grad(op, grad):
    return _own_rows(op, [grad])[0]


def _grouped_allgather_grad(op, *grads):
    return _own_rows(op, grads)


def _broadcast_grad(op, grad):
    grad = _allreduce(grad, op=Average, **_where(op))
    return grad if _basics.rank() == _option(op, "root_rank") else grad * 0


def _alltoall_grad(op, grad, _received):
    grad, _ = alltoall(grad, splits=op.outputs[1], **_where(op))
    return [grad, None]


def _spread(op, grads):
    """The gradients of all ranks' shares, together, as those of the whole that was reduced."""
    how, where = _how(op), _where(op)
    factor = how["prescale_factor"] * how["postscale_factor"]
    factor *= where["process_set"].size() if how["op"] == Sum else 1
    return grouped_allgather([grad * factor if factor != 1 else grad for grad in grads], **where)


def _reducescatter_grad(op, grad):
    return _spread(op, [grad])[0]


def _grouped_reducescatter_grad(op, *grads):
    return _spread(op, grads)


if IS_NATIVE:
    tf.RegisterGradient("HorovodAllreduce")(_allreduce_grad)
    tf.RegisterGradient("HorovodGroupedAllreduce")(_grouped_allreduce_grad)
    tf.RegisterGradient("HorovodAllgather")(_allgather_grad)
    tf.RegisterGradient("HorovodGroupedAllgather")(_grouped_allgather_grad)
    tf.RegisterGradient("HorovodBroadcast")(_broadcast_grad)
    tf.RegisterGradient("HorovodAlltoall")(_alltoall_grad)
    tf.RegisterGradient("HorovodReducescatter")(_reducescatter_grad)
    tf.RegisterGradient("HorovodGroupedReducescatter")(_grouped_reducescatter_grad)
    tf.no_gradient("HorovodJoin")

OPERATIONS = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "alltoall",
    "broadcast",
    "broadcast_",
    "grouped_allgather",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "size_op",
]
__all__ = [*_names, *OPERATIONS, "handle_average_backwards_compatibility", "_basics"]
