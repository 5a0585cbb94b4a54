"""Callbacks for `fit`, for whichever Keras: each drop-in module makes them of its own base class."""

import types

import numpy as np

from ronde import numpy as arrays
from ronde._basics import basics, report
from ronde.keras._variables import assign, bring_variables, broadcast, optimizer_variables, to_array


def build(callback, checkpoint):
    """The callbacks, as subclasses of a Keras's `Callback` and `ModelCheckpoint`."""

    class BroadcastGlobalVariablesCallback(callback):
        """Gives everybody the root's variables after the first batch, when all of them exist."""

        def __init__(self, root_rank, device="", local_variables=None):
            super().__init__()
            self.root_rank = root_rank
            self.broadcast_done = False
            self._local = {id(variable) for variable in local_variables or []}

        def register_local_var(self, var):
            """Registers a variable as this rank's own: it keeps its value."""
            self._local.add(id(var))

        def on_train_batch_end(self, batch, logs=None):
            if self.broadcast_done:
                return
            bring_variables(self.model)
            variables = [*self.model.variables, *optimizer_variables(self.model.optimizer)]
            shared = [variable for variable in variables if id(variable) not in self._local]
            for number, variable in enumerate(shared):
                assign(variable, broadcast(to_array(variable), self.root_rank, f"keras.broadcast.{number}"))
            self.broadcast_done = True

    class MetricAverageCallback(callback):
        """Averages the metrics of an epoch over all ranks; callbacks after it see the average."""

        def __init__(self, device=""):
            super().__init__()

        def on_epoch_end(self, epoch, logs=None):
            names = sorted(name for name in logs or {} if np.ndim(logs[name]) == 0)
            if names:
                values = arrays.allreduce(np.array([float(logs[name]) for name in names]), name="keras.metrics")
                logs.update(zip(names, values.tolist()))

    class LearningRateScheduleCallback(callback):
        """The learning rate is so many times the initial one, from one epoch to another."""

        def __init__(
            self,
            initial_lr,
            multiplier,
            start_epoch=0,
            end_epoch=None,
            staircase=True,
            momentum_correction=True,
            steps_per_epoch=None,
        ):
            super().__init__()
            if initial_lr is None:
                raise ValueError("Parameter `initial_lr` is required")
            self.initial_lr = initial_lr
            self.start_epoch = start_epoch
            self.end_epoch = end_epoch
            self.staircase = staircase or not callable(multiplier)
            self.momentum_correction = momentum_correction
            self.steps_per_epoch = steps_per_epoch
            self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier
            self.current_epoch = 0
            self._momentum = None

        def on_train_begin(self, logs=None):
            self.steps_per_epoch = self.steps_per_epoch or (self.params or {}).get("steps")
            if not self.staircase and not self.steps_per_epoch:
                raise ValueError("Could not autodetect the number of steps per epoch. Please specify `steps_per_epoch`")

        def on_epoch_begin(self, epoch, logs=None):
            self.current_epoch = epoch

        def on_train_batch_begin(self, batch, logs=None):
            is_in_time = self.current_epoch >= self.start_epoch and (
                self.end_epoch is None or self.current_epoch < self.end_epoch
            )
            if not is_in_time:
                return
            if self.staircase and batch == 0:
                self._set(self.current_epoch)
            elif not self.staircase:
                self._set(self.current_epoch + batch / self.steps_per_epoch)

        def _set(self, epoch):
            bring_variables(self.model)
            optimizer = self.model.optimizer
            old = float(to_array(optimizer.learning_rate))
            new = self.initial_lr * self.multiplier(epoch)
            _set_rate(optimizer, new)
            # Momentum has the old rate in it: without this the loss jumps when the rate does.
            if self.momentum_correction and isinstance(getattr(optimizer, "momentum", None), float) and old > 0:
                self._momentum = optimizer.momentum
                optimizer.momentum = self._momentum * new / old

        def on_train_batch_end(self, batch, logs=None):
            if self._momentum is not None:
                self.model.optimizer.momentum, self._momentum = self._momentum, None

        def on_epoch_end(self, epoch, logs=None):
            if logs is not None:
                bring_variables(self.model)
                logs["lr"] = float(to_array(self.model.optimizer.learning_rate))

    class LearningRateWarmupCallback(LearningRateScheduleCallback):
        """From a rank's own learning rate to that of all ranks together, in the first epochs."""

        def __init__(self, initial_lr, warmup_epochs=5, momentum_correction=True, steps_per_epoch=None, verbose=0):
            def multiplier(epoch):
                # One step ahead: the last step of the last epoch has the full rate.
                epoch += 1.0 / (self.steps_per_epoch or 1)
                size = basics.size()
                return 1.0 / size * (epoch * (size - 1) / warmup_epochs + 1)

            super().__init__(
                initial_lr,
                multiplier,
                start_epoch=0,
                end_epoch=warmup_epochs,
                staircase=False,
                momentum_correction=momentum_correction,
                steps_per_epoch=steps_per_epoch,
            )
            self.verbose = verbose

        def on_epoch_end(self, epoch, logs=None):
            super().on_epoch_end(epoch, logs)
            if epoch == self.end_epoch - 1 and self.verbose > 0:
                rate = float(to_array(self.model.optimizer.learning_rate))
                print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")

    class BestModelCheckpoint(checkpoint):
        """Keeps the best model; where, is said later by whoever runs the training."""

        def __init__(self, monitor="val_loss", verbose=0, save_weights_only=False, mode="auto", save_freq="epoch"):
            super().__init__(
                # A path that Keras takes; it is replaced before it is used.
                "checkpoint.weights.h5" if save_weights_only else "checkpoint.keras",
                monitor=monitor,
                verbose=verbose,
                save_best_only=True,
                save_weights_only=save_weights_only,
                mode=mode,
                save_freq=save_freq,
            )
            self.filepath = None

    class ReportCallback(callback):
        """Reports every batch: the step, the loss, and the samples, if it is told how many a batch has on one rank."""

        def __init__(self, batch_size=0):
            super().__init__()
            self.batch_size = batch_size
            self.step = 0

        def on_train_batch_end(self, batch, logs=None):
            self.step += 1
            report(step=self.step, loss=(logs or {}).get("loss"), samples=self.batch_size)

    names = [
        BroadcastGlobalVariablesCallback,
        MetricAverageCallback,
        LearningRateScheduleCallback,
        LearningRateWarmupCallback,
        BestModelCheckpoint,
        ReportCallback,
    ]
    return types.SimpleNamespace(**{each.__name__: each for each in names})


def build_elastic(callback):
    """The callbacks of elastic training, as subclasses of a Keras's `Callback`."""

    class CommitStateCallback(callback):
        """Commits the state every so many batches, and at the end of an epoch."""

        def __init__(self, state, batches_per_commit=1):
            super().__init__()
            self.state = state
            self.batches_per_commit = batches_per_commit
            self.batches_remaining = batches_per_commit

        def on_train_begin(self, logs=None):
            self.batches_remaining = self.batches_per_commit

        def on_train_batch_end(self, batch, logs=None):
            self.batches_remaining -= 1
            if self.batches_remaining == 0:
                self.batches_remaining = self.batches_per_commit
                self.commit()

        def on_epoch_end(self, epoch, logs=None):
            self.batches_remaining = self.batches_per_commit
            self.commit()

        def commit(self):
            """What subclasses may add to."""
            self.state.commit()

    class UpdateBatchStateCallback(callback):
        """Notes the batch in the state; after a reset an epoch goes on where it was."""

        def __init__(self, state):
            super().__init__()
            self.state = state
            self.steps_per_epoch = None

        def on_train_begin(self, logs=None):
            self.steps_per_epoch = None

        def on_epoch_begin(self, epoch, logs=None):
            steps = (self.params or {}).get("steps")
            self.steps_per_epoch = self.steps_per_epoch or steps
            if self.steps_per_epoch is not None and "steps" in (self.params or {}):
                self.params["steps"] = self.steps_per_epoch - self.state.batch

        def on_train_batch_end(self, batch, logs=None):
            self.state.batch = batch

        def on_epoch_end(self, epoch, logs=None):
            self.state.batch = 0

    class UpdateEpochStateCallback(callback):
        """Notes the epoch in the state, counted from its first."""

        def __init__(self, state):
            super().__init__()
            self.state = state
            self.initial_epoch = state.epoch

        def on_train_begin(self, logs=None):
            self.initial_epoch = self.state.epoch

        def on_epoch_end(self, epoch, logs=None):
            self.state.epoch = self.initial_epoch + epoch + 1

    names = [CommitStateCallback, UpdateBatchStateCallback, UpdateEpochStateCallback]
    return types.SimpleNamespace(**{each.__name__: each for each in names})


def _set_rate(optimizer, rate):
    variable = optimizer.learning_rate
    if hasattr(variable, "assign"):
        variable.assign(rate)
    else:
        optimizer.learning_rate = rate
