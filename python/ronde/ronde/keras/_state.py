"""The state of an elastic training with Keras on JAX or PyTorch."""

from ronde._basics import basics
from ronde._objects import broadcast_object
from ronde.elastic import ObjectState
from ronde.keras._variables import assign, bring_variables, broadcast, optimizer_variables, to_array


class State(ObjectState):
    """A model, its optimizer, and plain attributes given as keywords."""

    def __init__(self, model, optimizer=None, backend=None, **kwargs):
        if not getattr(model, "built", True):
            raise ValueError("Model must be built first. Run `model.build(input_shape)`.")
        self.model = model
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        self.backend = backend
        if self.optimizer is not None and not self.optimizer.built:
            # All ranks must have the same variables, also those that have not trained yet.
            self.optimizer.build(model.trainable_variables)
        self._saved_values = []
        self._save_variables()
        super().__init__(broadcast_object, basics.rank, **kwargs)

    def _variables(self):
        return [*self.model.variables, *optimizer_variables(self.optimizer)]

    def _save_variables(self):
        bring_variables(self.model)
        self._saved_values = [to_array(variable).copy() for variable in self._variables()]

    def save(self):
        self._save_variables()
        super().save()

    def restore(self):
        # What came to exist after the last commit has no value to go back to.
        for variable, value in zip(self._variables(), self._saved_values):
            assign(variable, value)
        super().restore()

    def sync(self):
        bring_variables(self.model)
        for number, variable in enumerate(self._variables()):
            assign(variable, broadcast(to_array(variable), 0, f"keras.state.{number}"))
        super().sync()
        self._save_variables()
