"""Keras 3 on every backend, the same for all: optimizers, callbacks, saved models, elastic states.

What is Keras's on TensorFlow alone, Keras 2 too, is tested in `test_tensorflow.py`.
"""

import importlib.util

import pytest
from conftest import Job

if importlib.util.find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

BACKENDS = [name for name in ("jax", "tensorflow", "torch") if importlib.util.find_spec(name) is not None]
if not BACKENDS:
    pytest.skip("none of JAX, TensorFlow and PyTorch is installed", allow_module_level=True)


@pytest.fixture(params=BACKENDS)
def backend(request):
    quiet = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    return {"KERAS_BACKEND": request.param, **quiet}


def test_a_training_reports_its_progress(ring, backend):
    def body():
        import horovod.keras as hvd
        import keras

        hvd.init()
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
        x = np.ones((64, 4), "float32")
        callback = hvd.callbacks.ReportCallback(batch_size=8)
        model.fit(x, x.sum(1, keepdims=True), batch_size=8, epochs=2, verbose=0, callbacks=[callback])

    (_, first), (_, second) = ring(2).run(body, **backend)
    assert "Step #16    Loss: " in first and "Samples/s: " in first, first
    assert "Step #" not in second, second


def test_a_model_trains_alike_on_all_ranks_and_goes_on_after_it_was_saved(ring, tmp_path, backend):
    def body():
        import horovod.keras as hvd
        import keras

        assert ("tensorflow" in sys.modules) == (keras.backend.backend() == "tensorflow")
        hvd.init()
        rank = hvd.rank()
        keras.utils.set_random_seed(rank)
        layers = [keras.Input([4]), keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.1), keras.layers.Dense(1)]
        model = keras.Sequential(layers)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
        assert type(optimizer).__name__ == "SGD"
        model.compile(optimizer, "mse")
        x = np.random.default_rng(rank).normal(size=(64, 4)).astype("float32")
        y = x.sum(axis=1, keepdims=True)

        def same_weights(model):
            weights = hvd.allgather(np.concatenate([each.ravel() for each in model.get_weights()])[None])
            assert np.array_equal(weights[0], weights[1])

        best = hvd.callbacks.BestModelCheckpoint(monitor="loss")
        best.filepath = os.path.join(os.environ["FOLDER"], f"best{rank}.keras")
        history = model.fit(
            x,
            y,
            batch_size=8,
            epochs=4,
            verbose=0,
            callbacks=[
                hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                hvd.callbacks.MetricAverageCallback(),
                hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.1, warmup_epochs=2),
                hvd.callbacks.LearningRateScheduleCallback(0.1, multiplier=0.5, start_epoch=3),
                best,
            ],
        )
        losses = history.history["loss"]
        assert losses[-1] < losses[0] / 2, losses
        rates = history.history["lr"]
        assert rates[0] < rates[1] and abs(rates[1] - 0.1) < 1e-6 and abs(rates[3] - 0.05) < 1e-6, rates
        everybodys = hvd.allgather(np.array([losses[-1]]))
        assert everybodys[0] == everybodys[1]
        same_weights(model)
        assert os.path.exists(best.filepath)
        path = os.path.join(os.environ["FOLDER"], f"{rank}.keras")
        model.save(path)
        plain = keras.models.load_model(path).optimizer
        assert isinstance(plain, keras.optimizers.SGD) and not hasattr(plain, "_is_distributed")
        again = hvd.load_model(path)
        assert int(again.optimizer.iterations) == 32
        again.fit(x, y, batch_size=8, epochs=1, verbose=0)
        same_weights(again)

    ring(2).run(body, FOLDER=str(tmp_path), **backend)


def test_gradients_of_groups_and_of_a_ranks_own_variables(ring, backend):
    def body():
        import horovod.keras as hvd
        import keras

        hvd.init()
        rank = hvd.rank()

        def step(prepare=None, **options):
            variables = [keras.Variable(np.zeros(2, "float32")) for _ in range(3)]
            optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
            if prepare:
                prepare(optimizer, variables)
            grads = [keras.ops.ones([2]) * (rank + 1.0) * (number + 1) for number in range(3)]
            optimizer.apply(grads, variables)
            return [float(keras.ops.convert_to_numpy(each)[0]) for each in variables]

        for options in ({}, {"groups": 2}, {"compression": hvd.Compression.fp16}, {"gradient_predivide_factor": 2.0}):
            assert step(**options) == [-1.5, -3.0, -4.5], options
        assert step(op=hvd.Sum) == [-3.0, -6.0, -9.0]
        local = step(lambda optimizer, variables: optimizer.register_local_var(variables[1]))
        assert local == [-1.5, -(rank + 1.0), -4.5], local
        partial = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=None)
        assert type(partial).__name__ == "SGD"
        mistakes = [{"groups": -1}, {"op": hvd.Adasum}]
        if keras.backend.backend() != "tensorflow":
            mistakes.append({"backward_passes_per_step": 2})
        for mistake in mistakes:
            try:
                step(**mistake)
            except (NotImplementedError, ValueError):
                continue
            raise AssertionError(mistake)

    ring(2).run(body, **backend)


ELASTIC = """
import os, sys, time
print("pid", os.getpid(), flush=True)
import keras
import numpy as np
import horovod.keras as hvd

hvd.init()
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse")
x = np.random.default_rng(hvd.rank()).normal(size=(256, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)


class Tell(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.2)
        if hvd.rank() == 0:
            print(f"epoch {state.epoch} loss {logs['loss']:.6f} (ring of {hvd.size()})", flush=True)


@hvd.elastic.run
def train(state):
    callbacks = [
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.CommitStateCallback(state, 4),
        Tell(),
    ]
    model.fit(x, y, batch_size=32, epochs=max(60 - state.epoch, 1), callbacks=callbacks, verbose=0)


state = hvd.elastic.KerasState(model, epoch=0, batch=0)
train(state)
if hvd.rank() == 0:
    print(f"error: {abs(model.get_weights()[0] - 1).max():.4f}", flush=True)
"""


def test_an_elastic_training_outlives_a_rank_and_takes_a_new_one(tmp_path, backend):
    program = tmp_path / "program.py"
    program.write_text(ELASTIC)
    job = Job(tmp_path, ["localhost:2"], "-np 2 --min-np 1 --max-np 2", [str(program)], **backend)
    try:
        job.wait_for(r"epoch [1-9]\d* .*ring of 2")
        job.kill(1)
        after = job.wait_for(r"\(ring of 1\)")
        job.set_hosts(["localhost:2", "127.0.0.2:1"])
        job.wait_for(r"\(ring of 2\)", after)
        assert job.end() == 0, str(job)
    finally:
        job.process.kill()
    assert any("error: 0.0" in line for line in job.lines), str(job)
