"""Keras optimizers that apply everybody's gradients: of Keras 3 on any backend, and of Keras 2.

Gradients are reduced where they are applied, so that `fit`, `train_on_batch` and own loops are all the same.
"""

import inspect

from ronde.keras._backend import NAME


def distributed(optimizer, reducer, passes=1, is_averaged=False):
    """A new optimizer of the same settings, under the same name: what is saved with it loads without Ronde."""
    if getattr(optimizer, "_is_distributed", False):
        raise ValueError("the optimizer is distributed already: wrap it once")
    return wrap(type(optimizer).from_config(optimizer.get_config()), reducer, passes, is_averaged)


def wrap(optimizer, reducer, passes=1, is_averaged=False):
    """The optimizer itself, with all that it has learned."""
    kind = type(optimizer)
    parts = {
        "_is_distributed": True,
        "__module__": kind.__module__,
        "process_set": reducer.process_set,
        "register_local_var": lambda self, variable: reducer.keep_local(variable),
    }
    reduce = _reduction(reducer, passes, is_averaged)
    if hasattr(kind, "stateless_apply"):
        parts["apply"] = _apply(kind, reduce)
    else:
        parts["apply_gradients"] = _apply_gradients(kind, reduce)
    optimizer.__class__ = type(kind.__name__, (kind,), parts)
    return optimizer


def _apply(kind, reduce):
    """Keras 3: everything goes through `apply`."""

    def apply(self, grads, trainable_variables=None):
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        return reduce(list(grads), variables, lambda reduced: kind.apply(self, reduced, trainable_variables))

    return apply


def _apply_gradients(kind, reduce):
    """Keras 2, the optimizers before and after 2.11: everything goes through `apply_gradients`."""
    parameters = inspect.signature(kind.apply_gradients).parameters

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        grads, variables = zip(*grads_and_vars)
        if "skip_gradients_aggregation" in parameters:
            # What tf.distribute would do; there is one replica.
            kwargs.setdefault("skip_gradients_aggregation", True)

        def use(reduced):
            return kind.apply_gradients(self, list(zip(reduced, variables)), *args, **kwargs)

        return reduce(list(grads), list(variables), use)

    return apply_gradients


def _reduction(reducer, passes, is_averaged):
    """What is done with gradients before they are used."""
    if passes == 1:
        return lambda grads, variables, use: use(reducer.reduce(grads, variables))
    if NAME != "tensorflow":
        raise NotImplementedError(
            f"backward_passes_per_step needs Keras on TensorFlow; on {NAME} use the optimizer's own "
            "gradient_accumulation_steps"
        )
    from ronde.tensorflow.aggregation import LocalAggregation

    aggregation = LocalAggregation(passes, is_averaged)
    return lambda grads, variables, use: aggregation.step(grads, lambda sums: use(reducer.reduce(sums, variables)))
