"""The frameworks: how each is installed, and which versions are tried. For the error when one is missing."""

import importlib

# By module: the name, what pip installs, and the versions that our tests have seen.
FRAMEWORKS = {
    "torch": ("PyTorch", "torch", "1.13 to 2.15"),
    "tensorflow": ("TensorFlow", "tensorflow", "2.12 and newer"),
    "keras": ("Keras", "keras tensorflow", "2.12 and newer"),
    "jax": ("JAX", "jax optax", "0.4.30 to 0.10.2"),
    "mxnet": ("MXNet", "mxnet==1.9.1 numpy==1.23.5", "1.9.1"),
}


def require(module):
    """Imports a framework; raises ImportError, with how to install it, if it is not there."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # What a framework itself misses is for the framework to say.
        if error.name != module:
            raise
    name, packages, versions = FRAMEWORKS[module]
    package = "ronde" if module == "jax" else "horovod"
    text = f"{package}.{module} needs {name}, which is not installed: pip install {packages} (tried with {versions})"
    raise ImportError(text, name=module)
