"""Keras optimizers that apply everybody's gradients: of Keras 3 on any backend, and of Keras 2.

Gradients are reduced where they are applied, so that `fit`, `train_on_batch` and own loops are all the same.
"""

import inspect

from ronde.keras._backend import NAME
from ronde.keras._gradients import Gradients


def distributed(optimizer, reducer, passes=1, is_averaged=False):
    """A new optimizer of the same settings, under the same name: what is saved with it loads without Ronde."""
    if getattr(optimizer, "_is_distributed", False):
        raise ValueError("the optimizer is distributed already: wrap it once")
    return wrap(type(optimizer).from_config(optimizer.get_config()), reducer, passes, is_averaged)


def wrap(optimizer, reducer, passes=1, is_averaged=False):
    """The optimizer itself, with all that it has learned."""
    kind = type(optimizer)
    gradients = _gradients(reducer, passes, is_averaged)
    parts = {
        "_is_distributed": True,
        "__module__": kind.__module__,
        "process_set": reducer.process_set,
        "register_local_var": lambda self, variable: reducer.keep_local(variable),
        "_compute_gradients": _compute_gradients(gradients),
        "_gradients": gradients,
        # Where Horovod has it; scripts look at its counter.
        "_agg_helper": gradients.aggregation,
    }
    if hasattr(kind, "stateless_apply"):
        parts["apply"] = _apply(kind, gradients)
        _reduce_before_checks()
        if NAME == "tensorflow":
            _choose_no_xla()
    else:
        if hasattr(kind, "_compute_gradients"):
            # Keras's own: a part of `minimize`, which applies what it returns.
            del parts["_compute_gradients"]
        parts["apply_gradients"] = _apply_gradients(kind, gradients)
        parts["aggregate_gradients"] = parts["_aggregate_gradients"] = _aggregate_gradients(gradients)
    optimizer.__class__ = type(kind.__name__, (kind,), parts)
    return optimizer


def _apply(kind, gradients):
    """Keras 3: everything goes through `apply`."""

    def apply(self, grads, trainable_variables=None):
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        if not self.built:
            self.build(variables)
        return gradients.use(
            self, list(grads), variables, lambda reduced: kind.apply(self, reduced, trainable_variables)
        )

    return apply


def _reduce_before_checks():
    """Lets Keras 3's LossScaleOptimizer look at reduced gradients when the optimizer inside of it is distributed.

    `compile` puts it around the optimizer of a model with mixed precision, where we are not asked.
    """
    from keras.optimizers import LossScaleOptimizer

    plain = LossScaleOptimizer.apply
    if hasattr(plain, "_is_of_ronde"):
        return

    def apply(self, grads, trainable_variables=None):
        gradients = getattr(self.inner_optimizer, "_gradients", None)
        if gradients is None:
            return plain(self, grads, trainable_variables)
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        with gradients.checked(list(grads), variables) as checked:
            return plain(self, checked, trainable_variables)

    apply._is_of_ronde = True
    LossScaleOptimizer.apply = apply


def _choose_no_xla():
    """Lets Keras 3 on TensorFlow compile a model without XLA, unless it is told to, if the optimizer is distributed.

    On a machine with a GPU it would choose XLA, which does not know our operations. Keras leaves XLA out under
    `tf.distribute` in the same place, and as silently.
    """
    from keras import Model

    kind = next((each for each in Model.__mro__ if "_resolve_auto_jit_compile" in vars(each)), None)
    if kind is None or hasattr(kind._resolve_auto_jit_compile, "_is_of_ronde"):
        return
    plain = kind._resolve_auto_jit_compile

    def resolve(self):
        optimizer = getattr(self, "optimizer", None)
        # Mixed precision puts another one around it.
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        return not hasattr(inner, "_is_distributed") and plain(self)

    resolve._is_of_ronde = True
    kind._resolve_auto_jit_compile = resolve


def _apply_gradients(kind, gradients):
    """Keras 2, the optimizers before and after 2.11: everything goes through `apply_gradients`."""
    parameters = inspect.signature(kind.apply_gradients).parameters

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        grads, variables = zip(*grads_and_vars)
        # Whoever says so has asked `aggregate_gradients` before, as a LossScaleOptimizer does.
        is_reduced = kwargs.pop("skip_gradients_aggregation", False)
        is_reduced |= not kwargs.pop("experimental_aggregate_gradients", True)
        if "skip_gradients_aggregation" in parameters:
            kwargs["skip_gradients_aggregation"] = True
        elif "experimental_aggregate_gradients" in parameters:
            kwargs["experimental_aggregate_gradients"] = False

        def act(reduced):
            return kind.apply_gradients(self, list(zip(reduced, variables)), *args, **kwargs)

        if is_reduced and gradients.aggregation is None:
            return act(grads)
        return gradients.use(self, list(grads), list(variables), act)

    return apply_gradients


def _aggregate_gradients(gradients):
    """Keras 2: what a LossScaleOptimizer asks for before it looks whether gradients are finite."""

    def aggregate_gradients(self, grads_and_vars):
        grads, variables = zip(*grads_and_vars)
        with gradients.checked(list(grads), list(variables)) as checked:
            return list(zip(checked, variables))

    return aggregate_gradients


def _compute_gradients(gradients):
    """What Horovod's optimizers have for loops of one's own: gradients of all ranks, which may be applied later."""

    def compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        import tensorflow as tf

        tape = tape or tf.GradientTape()
        if callable(loss):
            with tape:
                loss = loss()
        grads = tape.gradient(loss, var_list, grad_loss)
        return list(zip(gradients.reduce_early(grads, list(var_list)), var_list))

    return compute_gradients


def _gradients(reducer, passes, is_averaged):
    """How gradients are reduced before they are used."""
    if passes == 1:
        return Gradients(reducer.reduce)
    if NAME != "tensorflow":
        raise NotImplementedError(
            f"backward_passes_per_step needs Keras on TensorFlow; on {NAME} use the optimizer's own "
            "gradient_accumulation_steps"
        )
    from ronde.tensorflow.aggregation import LocalAggregation

    return Gradients(reducer.reduce, LocalAggregation(passes, is_averaged))
