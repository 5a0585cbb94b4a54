"""The state of an elastic training with Keras."""

from ronde.tensorflow.elastic import TensorFlowKerasState


class KerasState(TensorFlowKerasState):
    """A model, its optimizer, and plain attributes given as keywords."""

    def __init__(self, model, optimizer=None, **kwargs):
        super().__init__(model, optimizer=optimizer, **kwargs)
