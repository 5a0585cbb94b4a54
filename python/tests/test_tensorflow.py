"""TensorFlow and Keras: every operation and its gradient, in and outside of graphs, tapes, optimizers, callbacks."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from conftest import HOROVODRUN, TIMEOUT_SECONDS, Job

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("TensorFlow is not installed", allow_module_level=True)

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
# On some processors oneDNN multiplies matrices of bfloat16 with an instruction that they lack, and the process dies of
# SIGILL, also without Ronde. Which code multiplies makes no difference to what ranks agree about.
WITHOUT_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "0"}


def test_operations_at_once_and_in_graphs(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        types = [tf.uint8, tf.int8, tf.int16, tf.int32, tf.int64, tf.float16, tf.bfloat16, tf.float32, tf.float64]

        def check(wrap):
            for dtype in types:
                own = tf.cast(tf.range(1, 5) + rank, dtype)
                total = tf.cast(sum(np.arange(1, 5) + each for each in range(size)), dtype)
                summed = wrap(lambda x: hvd.allreduce(x, op=hvd.Sum))(own)
                assert summed.dtype == dtype and (summed.numpy() == total.numpy()).all()
                group = wrap(lambda x: hvd.grouped_allreduce([x, x], op=hvd.Sum))(own)
                assert (group[1].numpy() == total.numpy()).all()
                sent = wrap(lambda x: hvd.broadcast(x, 1))(own)
                assert (sent.numpy() == tf.cast(tf.range(2, 6), dtype).numpy()).all()
            assert wrap(hvd.allgather)(tf.fill([rank, 2], rank)).numpy().tolist() == [[1, 1], [2, 2], [2, 2]]
            rows = wrap(hvd.grouped_allgather)([tf.fill([1], rank), tf.fill([2], rank)])
            assert [each.numpy().tolist() for each in rows] == [[0, 1, 2], [0, 0, 1, 1, 2, 2]]
            splits = tf.constant([1, 2, 3])
            got, received = wrap(lambda x: hvd.alltoall(x, splits=splits))(tf.range(6) + 10 * rank)
            assert received.numpy().tolist() == [rank + 1] * 3 and got.shape[0] == 3 * (rank + 1)
            assert wrap(hvd.alltoall)(tf.range(3)).numpy().tolist() == [rank] * 3
            share = wrap(lambda x: hvd.reducescatter(x, op=hvd.Sum))(tf.ones([3, 2]))
            assert share.numpy().tolist() == [[3, 3]]
            shares = wrap(lambda x: hvd.grouped_reducescatter([x, x]))(tf.ones([3, 2]))
            assert shares[1].numpy().tolist() == [[1, 1]]
            scaled = wrap(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0))(tf.ones(4))
            assert scaled.numpy().tolist() == [6.0] * 4
            for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
                small = wrap(lambda x: hvd.allreduce(x, compression=compression))(tf.constant([1 / 3]))
                assert small.dtype == tf.float32 and 0 < abs(small.numpy()[0] - 1 / 3) < 3e-3
            assert wrap(lambda x: hvd.allreduce(x, op=hvd.Sum))(tf.zeros([0, 3])).shape == (0, 3)
            slices = tf.IndexedSlices(tf.ones([1, 2]) * rank, tf.constant([rank]), dense_shape=tf.constant([3, 2]))
            sparse = wrap(lambda x: hvd.allreduce(x))(slices)
            assert np.allclose(tf.convert_to_tensor(sparse).numpy()[2], 2 / 3)
            assert int(wrap(lambda x: hvd.size_op() + x)(0)) == size

        check(lambda function: function)
        check(tf.function)
        assert hvd.allgather_object({"rank": rank})[2] == {"rank": 2}
        assert int(hvd.join()) in range(size)

    ring(3).run(body, **QUIET)


def test_gradients_of_operations(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        rank = hvd.rank()

        def gradient(function, x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
                loss = tf.reduce_sum(y * (rank + 1.0))
            return tape.gradient(loss, x).numpy().tolist()

        for wrap in (lambda function: function, tf.function):
            x = tf.ones([2, 2])
            assert gradient(wrap(lambda x: hvd.allreduce(x, op=hvd.Sum)), x) == [[3.0, 3.0]] * 2
            assert gradient(wrap(lambda x: hvd.allreduce(x, op=hvd.Average)), x) == [[1.5, 1.5]] * 2
            assert gradient(wrap(lambda x: hvd.grouped_allreduce([x], op=hvd.Sum)[0]), x) == [[3.0, 3.0]] * 2
            assert gradient(wrap(hvd.allgather), x) == [[1.5, 1.5]] * 2
            assert gradient(wrap(lambda x: hvd.broadcast(x, 1)), x) == [[1.5 * rank] * 2] * 2
            assert gradient(wrap(hvd.alltoall), x) == [[1.0, 1.0], [2.0, 2.0]]
            assert gradient(wrap(lambda x: hvd.reducescatter(x, op=hvd.Sum)), x) == [[2.0, 2.0], [4.0, 4.0]]

    ring(2).run(body, **QUIET)


def test_shapes_are_known_in_graphs_as_far_as_ranks_cannot_differ(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()

        @tf.function(input_signature=[tf.TensorSpec([4, None, 3])])
        def look(x):
            shapes = {
                "allreduce": hvd.allreduce(x).shape,
                "grouped_allreduce": hvd.grouped_allreduce([x, x[0]])[1].shape,
                "broadcast": hvd.broadcast(x, 0).shape,
                "allgather": hvd.allgather(x).shape,
                "grouped_allgather": hvd.grouped_allgather([x, x])[1].shape,
                "reducescatter": hvd.reducescatter(x).shape,
                "alltoall": hvd.alltoall(x).shape,
                "size_op": hvd.size_op().shape,
            }
            expected = {"grouped_allreduce": [None, 3], "size_op": []}
            expected.update(dict.fromkeys(["allreduce", "broadcast"], [4, None, 3]))
            for name, shape in shapes.items():
                assert shape.as_list() == expected.get(name, [None, None, 3]), (name, shape)
            return x

        look(tf.ones([4, 2, 3]))

    ring(2).run(body, **QUIET)


def test_names_are_the_same_in_whatever_order_functions_are_traced(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        rank = hvd.rank()
        total = lambda x: hvd.allreduce(x, op=hvd.Sum)  # noqa: E731
        steps = [tf.function(lambda x, number=number: total(x + number) * total(x)) for number in range(3)]
        x = tf.fill([2], float(rank))
        # Tracing starts no operation.
        for step in steps if rank else reversed(steps):
            step.get_concrete_function(x)
        for number, step in enumerate(steps):
            assert step(x).numpy().tolist() == [2.0 * number + 1] * 2

        everything = tf.function(lambda x: [step(x) for step in steps])
        assert [each.numpy()[0] for each in everything(x)] == [1.0, 3.0, 5.0]

    ring(2).run(body, **QUIET)


def test_what_xla_compiles_is_refused_with_a_sentence(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        inner = tf.function(lambda x: hvd.allreduce(x))
        for function in (hvd.allreduce, inner, lambda x: hvd.alltoall(x)):
            try:
                tf.function(function, jit_compile=True)(tf.ones(2))
            except NotImplementedError as error:
                assert "jit_compile=False" in str(error), error
            else:
                raise AssertionError("it was compiled")
        assert inner(tf.ones(2)).numpy().tolist() == [1.0, 1.0]

    ring(2).run(body, **QUIET)


def test_arrays_and_lists_are_tensors(ring):
    def body():
        import horovod.tensorflow as hvd

        hvd.init()
        for value in (np.ones(2, "float32"), [1.0, 1.0]):
            assert hvd.allreduce(value).numpy().tolist() == [1.0, 1.0]
            assert hvd.allgather(value).numpy().tolist() == [1.0] * 4
            assert hvd.broadcast(value, 0).numpy().tolist() == [1.0, 1.0]
            assert hvd.alltoall(value).numpy().tolist() == [1.0, 1.0]
            assert hvd.reducescatter(value).numpy().tolist() == [1.0]

    ring(2).run(body, **QUIET)


def test_two_hundred_operations_in_any_order_and_one_thread(ring):
    def body():
        import random
        import time

        import horovod.tensorflow as hvd
        import tensorflow as tf

        tf.config.threading.set_inter_op_parallelism_threads(1)
        hvd.init()
        order = list(range(200))
        # An old TensorFlow runs ours in the order of the program, which must then be the same everywhere.
        is_any_order = tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 15)
        random.Random(hvd.rank() if is_any_order else 0).shuffle(order)
        chance = random.Random(hvd.rank() + 100)

        def late(x):
            time.sleep(chance.random() / 500)
            return x

        @tf.function
        def everything(x):
            results = [None] * len(order)
            for number in order:
                own = x + float(number)
                if number % 5 == 0:
                    own = tf.ensure_shape(tf.numpy_function(late, [own], tf.float32), [10])
                results[number] = hvd.allreduce(own, op=hvd.Sum, name=f"number_{number}")
            return tf.stack(results)

        for _ in range(3):
            results = everything(tf.fill([10], float(hvd.rank())))
            assert (results[:, 0].numpy() == np.arange(200) * 2 + 1).all()

    ring(2).run(body, **QUIET)


def test_a_function_that_occurs_often_reduces_under_a_name_for_each(ring):
    def body():
        import time

        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        inner = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))

        def late(x):
            # What comes early on one rank comes late on the other.
            time.sleep(0.02 * (int(x[0]) % 2))
            return x

        @tf.function
        def everything(x):
            results = []
            for number in range(20):
                own = tf.numpy_function(late, [x + float(number)], tf.float32)
                results.append(inner(tf.ensure_shape(own, [10])))
            return tf.stack(results)

        for _ in range(3):
            results = everything(tf.fill([10], float(hvd.rank())))
            assert (results[:, 0].numpy() == np.arange(20) * 2 + 1).all(), results[:, 0]

    ring(2).run(body, **QUIET)


def test_what_ranks_disagree_about_is_an_error_on_all_and_the_session_goes_on(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        rank = hvd.rank()

        def fails(kind, act, *parts):
            try:
                act()
            except kind as error:
                assert all(part in str(error) for part in parts), error
            else:
                raise AssertionError("it went through")

        for number, wrap in enumerate((lambda function: function, tf.function)):
            name = f"x{number}"
            reduce = wrap(lambda x: hvd.allreduce(x, name=name))
            fails(tf.errors.FailedPreconditionError, lambda: reduce(tf.ones([rank + 1])), name, "rank")
            numbers = tf.ones([2], tf.int32 if rank else tf.float32)
            fails(tf.errors.FailedPreconditionError, lambda: reduce(numbers), name, "rank")
            kinds = [lambda x: hvd.allreduce(x, name=f"kind{number}"), lambda x: hvd.allgather(x, name=f"kind{number}")]
            fails(tf.errors.FailedPreconditionError, lambda: wrap(kinds[rank])(tf.ones(2)), f"kind{number}", "rank")
            ops = [hvd.Sum, hvd.Average]
            other = wrap(lambda x: hvd.allreduce(x, name=f"op{number}", op=ops[rank]))
            fails(tf.errors.FailedPreconditionError, lambda: other(tf.ones(2)), f"op{number}", "rank")
            root = wrap(lambda x: hvd.broadcast(x, 7, name=f"root{number}"))
            fails(tf.errors.InvalidArgumentError, lambda: root(tf.ones(2)), "7")
            assert reduce(tf.ones(2)).numpy().tolist() == [1.0, 1.0]

    ring(2).run(body, **QUIET)


def test_a_rank_that_dies_in_the_middle_of_a_graph_is_an_error_of_the_ring(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        from ronde.tensorflow.elastic import _is_of_the_ring

        hvd.init()

        @tf.function
        def step(x):
            return hvd.allreduce(x, name="a"), hvd.allreduce(x, name="b")

        step(tf.ones(10))
        if hvd.rank() == 1:
            os._exit(7)
        try:
            while True:
                step(tf.ones(10))
        except tf.errors.UnknownError as error:
            assert _is_of_the_ring(error) and "rank 1" in error.message, error

    codes = [code for code, _ in ring(2).run(body, check=False, **QUIET)]
    assert codes == [0, 7]


def test_tapes_and_optimizers_average_what_ranks_have_found(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        rank = hvd.rank()
        variables = [tf.Variable(tf.zeros([3])), tf.Variable(0.0), tf.Variable(tf.ones([4, 2]))]

        def loss():
            rows = tf.gather(variables[2], [rank])
            return tf.reduce_sum(variables[0]) * (rank + 1.0) + variables[1] * (4.0 * rank) + tf.reduce_sum(rows)

        def expect(grads):
            dense = [tf.convert_to_tensor(grad).numpy() for grad in grads]
            assert dense[0].tolist() == [1.5] * 3 and dense[1] == 2.0, dense
            assert dense[2].tolist() == [[0.5, 0.5]] * 2 + [[0.0, 0.0]] * 2, dense

        for wrap in (lambda function: function, tf.function):
            for options in (
                {},
                {"groups": 2},
                {"groups": [[variables[0], variables[1]]]},
                {"sparse_as_dense": True},
                {"sparse_as_dense": True, "gradient_predivide_factor": 2.0},
                {"compression": hvd.Compression.bf16},
            ):

                @wrap
                def step():
                    with tf.GradientTape() as tape:
                        value = loss()
                    return hvd.DistributedGradientTape(tape, **options).gradient(value, variables)

                expect(step())

            @wrap
            def local():
                with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
                    value = loss()
                tape.register_local_source(variables[1])
                return tape.gradient(value, variables)

            assert local()[1].numpy() == 2.0 * rank

    ring(2).run(body, **QUIET)


def test_keras_trains_alike_on_all_ranks(ring, tmp_path):
    def body():
        import horovod.tensorflow.keras as hvd
        import tensorflow as tf

        hvd.init()
        rank = hvd.rank()
        tf.keras.utils.set_random_seed(rank)
        model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(1)])
        optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9))
        assert type(optimizer).__name__ == "SGD"
        model.compile(optimizer, "mse")
        x = np.random.default_rng(rank).normal(size=(64, 4)).astype("float32")
        y = x.sum(axis=1, keepdims=True)
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
            ],
        )
        losses = history.history["loss"]
        assert losses[-1] < losses[0] / 2
        rates = history.history["lr"]
        assert abs(rates[1] - 0.1) < 1e-6 and rates[0] < rates[1], rates
        everybodys = hvd.allgather(np.array([losses[-1]]))
        assert everybodys[0] == everybodys[1]
        weights = hvd.allgather(np.concatenate([each.ravel() for each in model.get_weights()])[None])
        assert np.array_equal(weights[0], weights[1])
        path = os.path.join(os.environ["FOLDER"], f"{rank}.keras")
        model.save(path)
        plain = tf.keras.models.load_model(path)
        assert type(plain.optimizer) is tf.keras.optimizers.SGD
        again = hvd.load_model(path)
        assert int(again.optimizer.iterations.numpy()) == 32
        again.fit(x, y, batch_size=8, epochs=1, verbose=0)
        weights = hvd.allgather(np.concatenate([each.ravel() for each in again.get_weights()])[None])
        assert np.array_equal(weights[0], weights[1])

    ring(2).run(body, FOLDER=str(tmp_path), **QUIET)


def test_fit_with_many_steps_at_once_and_with_gradients_that_are_added_up(ring, tmp_path):
    def body():
        import horovod.tensorflow.keras as hvd
        import tensorflow as tf

        hvd.init()
        rank = hvd.rank()
        is_keras_3 = hasattr(tf.keras, "ops")
        x = np.random.default_rng(rank).normal(size=(32, 4)).astype("float32")
        y = x.sum(axis=1, keepdims=True)

        def build(optimizer, **options):
            tf.keras.utils.set_random_seed(1)
            model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(3), tf.keras.layers.Dense(1)])
            model.compile(optimizer, tf.keras.losses.MeanSquaredError(), **options)
            return model

        def train(passes=1, settings=None, **options):
            optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.9, **(settings or {}))
            optimizer = hvd.DistributedOptimizer(
                optimizer, backward_passes_per_step=passes, average_aggregated_gradients=True
            )
            model = build(optimizer, **options)
            model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
            weights = hvd.allgather(np.concatenate([each.ravel() for each in model.get_weights()])[None]).numpy()
            assert np.array_equal(weights[0], weights[1])
            return weights[0], int(np.asarray(model.optimizer.iterations))

        plain, steps = train()
        together, _ = train(steps_per_execution=4)
        assert np.allclose(plain, together, atol=1e-6) and steps == 16
        added, steps = train(passes=2)
        assert not np.allclose(plain, added, atol=1e-4) and steps == 16
        if is_keras_3:
            # Every pass is reduced here, and they are added up after that: the result is the same.
            accumulated, _ = train(settings={"gradient_accumulation_steps": 2})
            assert np.allclose(added, accumulated, atol=1e-5), (added, accumulated)

        compiled = build(hvd.DistributedOptimizer(tf.keras.optimizers.SGD()), jit_compile=True)
        try:
            compiled.fit(x, y, verbose=0)
        except NotImplementedError as error:
            assert "jit_compile=False" in str(error)
        else:
            raise AssertionError("it was compiled")

        # As Horovod's own wrapper is saved: by the name of the optimizer, out of a module of Horovod's.
        horovods = type("Adam", (tf.keras.optimizers.Adam,), {"__module__": "horovod._keras"})
        saved = build(horovods(0.01))
        saved.fit(x, y, batch_size=8, verbose=0)
        path = os.path.join(os.environ["FOLDER"], f"{rank}.keras")
        saved.save(path)
        again = hvd.load_model(path)
        assert type(again.optimizer).__name__ == "Adam" and again.optimizer._is_distributed
        assert int(np.asarray(again.optimizer.iterations)) == 4
        again.fit(x, y, batch_size=8, verbose=0)

    ring(2).run(body, FOLDER=str(tmp_path), **QUIET)


def test_keras_does_not_choose_xla_for_a_distributed_optimizer_on_a_gpu(ring):
    def body():
        import types

        import horovod.tensorflow.keras as hvd
        import tensorflow as tf

        hvd.init()
        if not hasattr(tf.keras, "ops"):
            # Keras 2 compiles with XLA only when it is told to.
            return
        # As Keras looks for a GPU, and for nothing else.
        tf.config.list_physical_devices = lambda *_: [types.SimpleNamespace(device_type="GPU")]

        def compiled(optimizer, **options):
            model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
            model.compile(optimizer, tf.keras.losses.MeanSquaredError(), **options)
            return model

        sgd = tf.keras.optimizers.SGD
        wrap = tf.keras.mixed_precision.LossScaleOptimizer
        for optimizer in (hvd.DistributedOptimizer(sgd()), wrap(hvd.DistributedOptimizer(sgd()))):
            model = compiled(optimizer)
            assert not model.jit_compile
            model.fit(np.ones([8, 4], "float32"), np.ones([8, 1], "float32"), verbose=0)
        assert compiled(sgd()).jit_compile
        assert compiled(hvd.DistributedOptimizer(sgd()), jit_compile=True).jit_compile

    ring(2).run(body, **QUIET)


def test_mixed_precision_skips_the_same_steps_on_all_ranks(ring):
    def body():
        import horovod.tensorflow.keras as hvd
        import tensorflow as tf

        hvd.init()
        rank = hvd.rank()

        def agree(values):
            everybodys = hvd.allgather(np.concatenate([np.ravel(each) for each in values]).astype("float32")[None])
            assert np.array_equal(everybodys[0], everybodys[1]), everybodys
            assert np.isfinite(everybodys[0]).all()

        def train(policy, passes, wrap=lambda optimizer: optimizer):
            tf.keras.mixed_precision.set_global_policy(policy)
            tf.keras.utils.set_random_seed(1)
            model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(3), tf.keras.layers.Dense(1)])
            optimizer = hvd.DistributedOptimizer(wrap(tf.keras.optimizers.SGD(0.1)), backward_passes_per_step=passes)
            model.compile(optimizer, "mse")
            x = np.random.default_rng(rank).normal(size=(8, 4)).astype("float32")
            y = x.sum(axis=1, keepdims=True)
            before = model.get_weights()
            for step in range(4 * passes):
                spoiled = policy == "mixed_float16" and step == 2 * passes and rank == 1
                model.train_on_batch(x * np.inf if spoiled else x, y)
                if step == 2 * passes - 1:
                    middle = model.get_weights()
                if step == 2 * passes and policy == "mixed_float16":
                    assert all(np.array_equal(a, b) for a, b in zip(middle, model.get_weights()))
            assert not np.array_equal(before[0], middle[0])
            agree(model.get_weights())
            variables = model.optimizer.variables
            agree([np.asarray(each, "float32") for each in (variables() if callable(variables) else variables)])
            tf.keras.mixed_precision.set_global_policy("float32")

        for passes in (1, 2):
            train("mixed_float16", passes)
            train("mixed_bfloat16", passes)
        train("mixed_float16", 1, tf.keras.mixed_precision.LossScaleOptimizer)

    ring(2).run(body, **QUIET, **WITHOUT_ONEDNN)


def test_keras_adds_up_passes_before_it_reduces(ring):
    def body():
        import horovod.tensorflow.keras as hvd
        import tensorflow as tf

        hvd.init()
        rank = hvd.rank()
        variable = tf.Variable([0.0])
        optimizer = hvd.DistributedOptimizer(
            tf.keras.optimizers.SGD(1.0), backward_passes_per_step=2, average_aggregated_gradients=True
        )
        step = tf.function(lambda: optimizer.apply_gradients([(tf.constant([rank + 1.0]), variable)]))
        seen = []
        for _ in range(4):
            step()
            seen.append(float(variable.numpy()[0]))
        assert seen == [0.0, -1.5, -1.5, -3.0], seen

    ring(2).run(body, **QUIET)


def test_batch_normalisation_over_all_ranks(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        rank = hvd.rank()
        for shape in [(8, 3), (8, 5, 5, 3)]:
            together = np.random.default_rng(1).normal(size=shape).astype("float32")
            own = together[rank * 4 : rank * 4 + 4]
            ours, plain = hvd.SyncBatchNormalization(axis=-1), tf.keras.layers.BatchNormalization(axis=-1)
            result = ours(own, training=True).numpy()
            expected = plain(together, training=True).numpy()[rank * 4 : rank * 4 + 4]
            assert np.allclose(result, expected, atol=1e-4), (result, expected)
            assert np.allclose(ours.moving_mean.numpy(), plain.moving_mean.numpy(), atol=1e-5)

    ring(2).run(body, **QUIET)


def test_a_session_of_tensorflow_1(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        v1 = tf.compat.v1
        v1.disable_eager_execution()
        hvd.init()
        x = v1.get_variable("x", initializer=tf.constant(float(hvd.rank())))
        loss = (x - float(hvd.rank() * 4)) ** 2
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.25))
        step = v1.train.get_or_create_global_step()
        train = optimizer.minimize(loss, global_step=step)
        hooks = [hvd.BroadcastGlobalVariablesHook(0), v1.train.StopAtStepHook(last_step=40)]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                _, value = session.run([train, x])
        assert abs(value - 2.0) < 1e-3, value

    ring(2).run(body, **QUIET)


def test_the_way_through_python_does_the_same(ring):
    def body():
        import warnings

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            import horovod.tensorflow as hvd
        assert any("through Python" in str(each.message) for each in said)
        import tensorflow as tf

        hvd.init()
        rank = hvd.rank()
        for wrap in (lambda function: function, tf.function):
            assert wrap(lambda x: hvd.allreduce(x))(tf.fill([2], float(rank))).numpy().tolist() == [0.5, 0.5]
            assert wrap(hvd.allgather)(tf.fill([1], rank)).numpy().tolist() == [0, 1]
            assert wrap(hvd.alltoall)(tf.range(2)).numpy().tolist() == [rank] * 2
            assert wrap(lambda x: hvd.broadcast(x, 1))(tf.fill([1], rank)).numpy().tolist() == [1]
            assert wrap(lambda x: hvd.reducescatter(x, op=hvd.Sum))(tf.ones([2])).numpy().tolist() == [2.0]

    ring(2).run(body, RONDE_TENSORFLOW_OPS="0", **QUIET)


def test_a_sampler_gives_each_rank_its_share_of_what_is_left(ring):
    def body():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        data = tf.data.Dataset.range(100, 112)
        sampler = hvd.elastic.ElasticSampler(data, seed=1)
        state = hvd.elastic.TensorFlowState([tf.Variable(1.0)], sampler=sampler)
        batches = sampler.indices().batch(2)
        first = next(iter(batches)).numpy().tolist()
        assert len(list(batches)) == 3
        sampler.record_batch(0, len(first))
        state.commit()
        # The ranks have changed, as far as it knows: the same dataset has what is left.
        state.on_reset()
        left = [batch.numpy().tolist() for batch in batches]
        seen = sum(hvd.allgather_object(sum(left, first)), [])
        assert len(left) == 2 and sorted(seen) == list(range(12)), seen

    ring(2).run(body, **QUIET)


@pytest.mark.parametrize("script", ["tensorflow_mnist_lm.py", "keras_mnist_advanced_modified.py"])
def test_digits_are_learned_by_the_scripts_of_the_seeds(script, examples):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    command = [HOROVODRUN, "-np", "2", sys.executable, str(examples / script)]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), **QUIET)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"accuracy: (0\.\d+)\s*$", done.stdout)
    assert found and float(found.group(1)) > 0.95, done.stdout


def test_an_elastic_training_outlives_a_rank_and_takes_a_new_one(tmp_path, examples):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    program = [str(examples / "elastic/tensorflow2_mnist_elastic.py"), "--steps", "2000", "--pause", "0.02"]
    job = Job(tmp_path, ["localhost:2"], "-np 2 --min-np 1 --max-np 3", program, **QUIET)
    try:
        job.wait_for(r"\[1\]<stdout>:Step #20 ")
        job.kill(1)
        after = job.wait_for(r"ring 2: 1 rank")
        job.set_hosts(["localhost:3"])
        job.wait_for(r"\[2\]<stdout>:Step #", after)
        job.end()
    finally:
        job.process.kill()
    found = [re.search(r"accuracy: (0\.\d+)$", line) for line in job.lines]
    assert any(each and float(each.group(1)) > 0.95 for each in found), str(job)
