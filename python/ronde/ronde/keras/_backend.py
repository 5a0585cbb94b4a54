"""What depends on the backend of Keras: TensorFlow, JAX or PyTorch, whichever Keras has chosen.

TensorFlow has gradients of its own kinds, graphs and Keras 2; the others share `_reducer`. Only the framework that
Keras uses is imported.
"""

# mypy: ignore-errors


def _name():
    try:
        import keras
    except ImportError:
        # `tf_keras` and the Keras inside of older TensorFlows know no other.
        return "tensorflow"
    return keras.backend.backend()


NAME = _name()

if NAME == "tensorflow":
    from ronde.tensorflow import mpi_ops as basics
    from ronde.tensorflow.compression import Compression
    from ronde.tensorflow.elastic import TensorFlowKerasState as State
    from ronde.tensorflow.elastic import run
    from ronde.tensorflow.functions import broadcast_global_variables
    from ronde.tensorflow.gradients import Reducer
elif NAME in ("jax", "torch"):
    from ronde import _basics as basics
    from ronde.keras._reducer import Reducer
    from ronde.keras._state import State

    if NAME == "jax":
        from ronde.jax.compression import Compression
        from ronde.jax.elastic import run
    else:
        from ronde.elastic import run
        from ronde.torch.compression import Compression

    def broadcast_global_variables(root_rank):
        """For graphs of TensorFlow 1, which Keras has none of here."""
        raise RuntimeError(
            f"hvd.broadcast_global_variables() needs graphs of TensorFlow, and Keras runs on {NAME}: "
            "use hvd.callbacks.BroadcastGlobalVariablesCallback"
        )
else:
    raise ImportError(f"horovod.keras works with Keras on TensorFlow, JAX and PyTorch, not on {NAME}")

__all__ = ["NAME", "Compression", "Reducer", "State", "basics", "broadcast_global_variables", "run"]
