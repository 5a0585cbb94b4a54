"""Variables of any Keras, as arrays and back."""

import numpy as np


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
