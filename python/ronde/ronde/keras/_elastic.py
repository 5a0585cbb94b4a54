"""The state of an elastic training with Keras."""

from ronde.keras._backend import State


class KerasState(State):
    """A model, its optimizer, and plain attributes given as keywords."""

    def __init__(self, model, optimizer=None, **kwargs):
        super().__init__(model, optimizer=optimizer, **kwargs)
