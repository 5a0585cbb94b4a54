"""Variables and objects from one rank to all."""

import tensorflow as tf

from ronde import _objects
from ronde.process_sets import global_process_set
from ronde.tensorflow.mpi_ops import _variable_name, broadcast
from ronde.tensorflow.util import _executing_eagerly


def broadcast_variables(variables, root_rank, process_set=global_process_set, inplace=False):
    """Gives everybody the root's values. In a graph of TensorFlow 1: the operation that does it."""
    variables = list(variables)
    if not _executing_eagerly():
        assigned = [_assigned(variable, number, root_rank, process_set) for number, variable in enumerate(variables)]
        return tf.group(*assigned)
    for number, variable in enumerate(variables):
        _assigned(variable, number, root_rank, process_set)
    return None


def _assigned(variable, number, root_rank, process_set):
    # Names of variables may occur twice; the order is the same everywhere.
    name = f"{_variable_name(variable)}_{number}"
    return variable.assign(broadcast(variable, root_rank, name, process_set=process_set))


def broadcast_object(obj=None, root_rank=0, session=None, name=None, process_set=global_process_set):
    """Gives everybody the root's object. It needs no session: objects are no tensors."""
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(root_rank=0, session=None, name=None, process_set=global_process_set):
    return lambda obj: broadcast_object(obj, root_rank, session, name or "broadcast_object_fn", process_set)


def allgather_object(obj, session=None, name=None, process_set=global_process_set):
    """The objects of all members, in their order."""
    return _objects.allgather_object(obj, name, process_set)


def broadcast_global_variables(root_rank):
    """For graphs of TensorFlow 1: the operation that gives everybody the root's variables."""
    if _executing_eagerly():
        raise RuntimeError(
            "hvd.broadcast_global_variables() does not support eager execution. "
            "Please use `hvd.broadcast_variables(<model/optimizer variables>)` instead."
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Gives everybody the root's variables when a session begins."""

    def __init__(self, root_rank, device=""):
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op = None

    def begin(self):
        if self.bcast_op is None or self.bcast_op.graph != tf.compat.v1.get_default_graph():
            with tf.device(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session, coord):
        session.run(self.bcast_op)
