"""The operations of our extension, as functions of TensorFlow.

The extension registers them through TensorFlow's C interface, whose functions are found in the library that is loaded
already. Where a TensorFlow lacks one of them, `_fallback` does the same through Python.
"""

import ctypes
import os
import sys
import types
import warnings

import tensorflow as tf

from ronde._ronde import tensorflow_register, tensorflow_symbols

_LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2", "libtensorflow_framework.so")


def _symbols():
    """The addresses of TensorFlow's functions, by name."""
    found = {}
    for library in _LIBRARIES:
        path = os.path.join(tf.sysconfig.get_lib(), library)
        if os.path.exists(path):
            # It is loaded already: this only gives us a handle.
            handle = ctypes.CDLL(path)
            for name in tensorflow_symbols():
                if name not in found and hasattr(handle, name):
                    found[name] = ctypes.cast(getattr(handle, name), ctypes.c_void_p).value
    return found


def _let_run_in_any_order(names):
    """Operations of one tf.function wait for each other only where the data says so.

    TensorFlow lets stateful operations run one after the other, in the order of the program. Ours match by name, so
    that ranks may come to them in different orders, and many are in flight at once.
    """
    from tensorflow.python.framework import auto_control_deps

    insensitive = getattr(auto_control_deps, "MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS", None)
    if insensitive is not None:
        auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS = frozenset(insensitive) | frozenset(names)


def _wrappers(names):
    """Python functions for operations, made as `tf.load_op_library` makes them."""
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.framework import _pywrap_python_op_gen, op_def_registry

    definitions = op_def_pb2.OpList(op=[op_def_registry.get(name) for name in names])
    module = types.ModuleType("ronde.tensorflow._generated")
    exec(_pywrap_python_op_gen.GetPythonWrappers(definitions.SerializeToString()), module.__dict__)
    sys.modules[module.__name__] = module
    return module


def load():
    """The functions, and whether they are TensorFlow's own operations."""
    try:
        if os.environ.get("RONDE_TENSORFLOW_OPS", "1") == "0":
            raise NotImplementedError("RONDE_TENSORFLOW_OPS=0")
        names, is_asynchronous = tensorflow_register(_symbols())
        # Operations that wait in threads of TensorFlow's keep the order of the program: in any other, those of two
        # ranks might take up all threads and wait for each other.
        if is_asynchronous:
            _let_run_in_any_order(names)
        return _wrappers(names), True
    except (NotImplementedError, ImportError, AttributeError) as error:
        warnings.warn(
            f"TensorFlow {tf.__version__} cannot take operations from outside ({error}): "
            "they go through Python, which is slower, and needs more than one inter-op thread",
            RuntimeWarning,
            stacklevel=2,
        )
        from ronde.tensorflow import _fallback

        return _fallback, False
