"""Variables of any Keras, as arrays and back."""

import numpy as np

from ronde import numpy as arrays
from ronde._ronde import TYPE_CODES


def optimizer_variables(optimizer):
    """All variables of an optimizer, which is a list in some versions and a method in others."""
    variables = getattr(optimizer, "variables", [])
    return list(variables() if callable(variables) else variables)


def to_array(variable):
    """The value of a variable."""
    if hasattr(variable, "detach"):
        return variable.detach().cpu().numpy()
    value = getattr(variable, "value", variable)
    value = value() if callable(value) else value
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.require(value.numpy() if hasattr(value, "numpy") else value, requirements="C")


def assign(variable, value):
    variable.assign(value)


def broadcast(value, root_rank, name):
    """The root's value of an array: as bytes, if it is of a type that cannot be reduced, such as that of seeds."""
    if value.dtype.name in TYPE_CODES:
        return arrays.broadcast(value, root_rank, name)
    return arrays.broadcast(value.reshape(-1).view(np.uint8), root_rank, name).view(value.dtype).reshape(value.shape)


def bring_variables(model):
    """On JAX a training keeps values to itself between steps: brings them to the variables, to be read or set."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


def local_variables(layers):
    """The variables of layers that are given as one, some or none."""
    layers = [] if layers is None else layers if isinstance(layers, (list, tuple, set)) else [layers]
    return [variable for layer in layers for variable in layer.trainable_weights]
