"""What the rest asks TensorFlow for."""

import os

import tensorflow as tf


def _executing_eagerly():
    """Whether operations are done at once, rather than put into a graph."""
    return tf.executing_eagerly()


def is_compiled_by_xla():
    """Whether the function that is being traced has `jit_compile=True`."""
    from tensorflow.python.ops import control_flow_util

    found = getattr(control_flow_util, "GraphOrParentsInXlaContext", None)
    return found is not None and found(tf.compat.v1.get_default_graph())


def is_elastic():
    """Whether the number of ranks may change while a graph lives."""
    return os.environ.get("HOROVOD_ELASTIC", "0") not in ("", "0")
