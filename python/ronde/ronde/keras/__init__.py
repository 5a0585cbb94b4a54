"""Distributed training with Keras: Horovod's `horovod.keras`."""

try:
    import keras as _keras
except ImportError as error:
    raise ImportError(
        "horovod.keras needs Keras, which is not installed here: pip install keras, and TensorFlow, JAX or PyTorch"
    ) from error

from ronde.keras import callbacks, elastic
from ronde.keras._module import *  # noqa: F403
from ronde.keras._module import __all__ as _names
from ronde.keras._module import Compression
from ronde.keras._module import load_model as _load_model


def load_model(filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, legacy_opts=False):
    """A model that was saved with its optimizer, which is distributed from now on."""
    return _load_model(_keras, filepath, custom_optimizers, custom_objects, compression)


__all__ = [*_names, "callbacks", "elastic", "load_model"]
