"""What the rest asks TensorFlow for."""

import os

import tensorflow as tf


def _executing_eagerly():
    """Whether operations are done at once, rather than put into a graph."""
    return tf.executing_eagerly()


def is_elastic():
    """Whether the number of ranks may change while a graph lives."""
    return os.environ.get("HOROVOD_ELASTIC", "0") not in ("", "0")
