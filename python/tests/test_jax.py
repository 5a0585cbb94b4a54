"""JAX: every operation and its gradient, inside of jit and outside, optimizers, states, and what goes wrong."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from conftest import HOROVODRUN, TIMEOUT_SECONDS, Job

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed", allow_module_level=True)

QUIET = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}


def test_operations_at_once_and_in_jit(ring):
    def body():
        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd

        jax.config.update("jax_enable_x64", True)
        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        names = "uint8 int8 uint16 int16 int32 int64 float16 bfloat16 float32 float64"

        def check(wrap):
            for dtype in map(jnp.dtype, names.split()):
                own = (jnp.arange(1, 5) + rank).astype(dtype)
                total = sum(np.arange(1, 5) + each for each in range(size)).astype(dtype)
                summed = wrap(lambda x: hvd.allreduce(x, op=hvd.Sum))(own)
                assert summed.dtype == dtype and (summed == total).all()
                group = wrap(lambda x: hvd.grouped_allreduce([x, x[:1]], op=hvd.Sum))(own)
                assert (group[0] == total).all() and group[1].shape == (1,)
                assert (wrap(lambda x: hvd.broadcast(x, 1))(own) == np.arange(2, 6)).all()
                assert (wrap(lambda x: hvd.allreduce(x, op=hvd.Min))(own) == np.arange(1, 5)).all()
                assert (wrap(lambda x: hvd.allreduce(x, op=hvd.Max))(own) == np.arange(3, 7)).all()
            product = wrap(lambda x: hvd.allreduce(x, op=hvd.Product))(jnp.full(3, rank + 2))
            assert product.tolist() == [24] * 3
            adasum = wrap(lambda x: hvd.allreduce(x, op=hvd.Adasum))(jnp.ones(4) * (rank + 1))
            assert adasum.shape == (4,)
            flags = wrap(lambda x: hvd.allreduce(x, op=hvd.Max))(jnp.array([rank == 1, False]))
            assert flags.dtype == bool and flags.tolist() == [True, False]
            rows = wrap(hvd.allgather)(jnp.full([2, 2], rank))
            assert rows[:, 0].tolist() == [0, 0, 1, 1, 2, 2]
            both = wrap(lambda x: hvd.grouped_allgather([x, x.astype(jnp.float32)]))(jnp.full([1], rank))
            assert [each.tolist() for each in both] == [[0, 1, 2], [0.0, 1.0, 2.0]]
            assert wrap(hvd.alltoall)(jnp.arange(3)).tolist() == [rank] * 3
            share = wrap(lambda x: hvd.reducescatter(x, op=hvd.Sum))(jnp.ones([3, 2]))
            assert share.tolist() == [[3, 3]]
            uneven = wrap(lambda x: hvd.reducescatter(x, op=hvd.Sum))(jnp.ones([4, 2]))
            assert uneven.shape == (2 if rank == 0 else 1, 2)
            shares = wrap(lambda x: hvd.grouped_reducescatter([x, x]))(jnp.ones([3, 2]))
            assert shares[1].tolist() == [[1, 1]]
            scale = {"prescale_factor": 0.5, "postscale_factor": 4.0}
            assert wrap(lambda x: hvd.allreduce(x, op=hvd.Sum, **scale))(jnp.ones(4)).tolist() == [6.0] * 4
            for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
                small = wrap(lambda x: hvd.allreduce(x, compression=compression))(jnp.array([1 / 3]))
                assert small.dtype == jnp.float64 and abs(small[0] - 1 / 3) < 3e-3
            assert wrap(lambda x: hvd.allreduce(x, op=hvd.Sum))(jnp.zeros([0, 3])).shape == (0, 3)
            tree = wrap(hvd.pmean)({"a": jnp.full(2, float(rank)), "b": [jnp.asarray(3.0 * rank)]})
            assert tree["a"].tolist() == [1.0, 1.0] and tree["b"][0] == 3.0
            assert wrap(hvd.psum)([jnp.asarray(1)])[0] == 3

        check(lambda function: function)
        check(jax.jit)
        assert hvd.allgather(jnp.full([rank, 2], rank)).tolist() == [[1, 1], [2, 2], [2, 2]]
        got, received = hvd.alltoall(jnp.arange(6) + 10 * rank, splits=[1, 2, 3])
        assert received.tolist() == [rank + 1] * 3 and got.shape[0] == 3 * (rank + 1)
        assert hvd.allgather_object({"rank": rank})[2] == {"rank": 2}
        hvd.barrier()
        assert hvd.join() in range(size)

    ring(3).run(body, **QUIET)


def test_process_sets_in_jit(ring):
    def body():
        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd

        pair = hvd.ProcessSet([0, 2])
        hvd.init(process_sets=[pair])
        if hvd.rank() != 1:
            mean = jax.jit(lambda x: hvd.allreduce(x, process_set=pair))
            assert mean(jnp.full(2, float(hvd.rank()))).tolist() == [1.0, 1.0]
            rows = jax.jit(lambda x: hvd.allgather(x, process_set=pair))(jnp.full(1, hvd.rank()))
            assert rows.tolist() == [0, 2]
        hvd.barrier()
        try:
            hvd.allreduce(jnp.ones(1), process_set=hvd.ProcessSet([1]))
        except ValueError as error:
            assert "has not been registered" in str(error)

    ring(3).run(body, **QUIET)


def test_gradients_of_operations(ring):
    def body():
        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd

        hvd.init()
        rank = hvd.rank()

        def gradient(wrap, function, x):
            def loss(x):
                return jnp.sum(function(x) * (rank + 1.0))

            return wrap(jax.grad(loss))(x).tolist()

        for wrap in (lambda function: function, jax.jit):
            x = jnp.ones([2, 2])
            assert gradient(wrap, lambda x: hvd.allreduce(x, op=hvd.Sum), x) == [[3.0, 3.0]] * 2
            assert gradient(wrap, lambda x: hvd.allreduce(x, op=hvd.Average), x) == [[1.5, 1.5]] * 2
            assert gradient(wrap, lambda x: hvd.grouped_allreduce([x], op=hvd.Sum)[0], x) == [[3.0, 3.0]] * 2
            assert gradient(wrap, hvd.allgather, x) == [[1.5, 1.5]] * 2
            assert gradient(wrap, lambda x: hvd.broadcast(x, 1), x) == [[1.5 * rank] * 2] * 2
            assert gradient(wrap, hvd.alltoall, x) == [[1.0, 1.0], [2.0, 2.0]]
            assert gradient(wrap, lambda x: hvd.reducescatter(x, op=hvd.Sum), x) == [[2.0, 2.0], [4.0, 4.0]]
        assert gradient(lambda function: function, hvd.allgather, jnp.ones(rank + 1)) == [1.5] * (rank + 1)

        def mixed(x):
            total, _ = hvd.grouped_allreduce([x, jnp.arange(3)], op=hvd.Sum)
            return total.sum()

        assert jax.jit(jax.grad(mixed))(jnp.ones(2)).tolist() == [2.0, 2.0]
        try:
            gradient(jax.jit, lambda x: hvd.allreduce(x, op=hvd.Max), x)
            raise AssertionError("it has a gradient")
        except NotImplementedError:
            pass

    ring(2).run(body, **QUIET)


def test_operations_are_vmapped_scanned_chosen_and_computed_again(ring):
    def body():
        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd

        hvd.init()
        rank = hvd.rank()
        x = jnp.arange(6.0).reshape(3, 2) + rank
        both = np.concatenate([np.arange(6.0).reshape(3, 2), np.arange(6.0).reshape(3, 2) + 1], axis=1)
        for wrap in (lambda function: function, jax.jit):
            summed = wrap(jax.vmap(lambda row: hvd.allreduce(row, op=hvd.Sum)))(x)
            assert np.allclose(summed, both[:, :2] + both[:, 2:])
            assert np.allclose(wrap(jax.vmap(hvd.allgather))(x), both)
            assert np.allclose(wrap(jax.vmap(hvd.allgather, in_axes=1, out_axes=1))(x.T), both.T)
            assert wrap(jax.vmap(lambda row: hvd.reducescatter(row, op=hvd.Sum)))(x).shape == (3, 1)
        try:
            jax.vmap(lambda row: hvd.allreduce(row, op=hvd.Adasum))(x)
            raise AssertionError("Adasum was vmapped")
        except NotImplementedError as error:
            assert "vmapped" in str(error)

        def step(carry, row):
            total = hvd.allreduce(row, op=hvd.Sum)
            return carry + total, total

        total, rows = jax.jit(lambda x: jax.lax.scan(step, jnp.zeros(2), x))(x)
        assert np.allclose(rows, both[:, :2] + both[:, 2:]) and np.allclose(total, rows.sum(axis=0))

        def choose(flag, x):
            return jax.lax.cond(flag, lambda x: hvd.allreduce(x, op=hvd.Sum), lambda x: x, x)

        assert np.allclose(jax.jit(choose)(True, x), both[:, :2] + both[:, 2:])

        @jax.checkpoint
        def layer(x):
            return jnp.sin(hvd.allreduce(x, name="layer"))

        inner = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))
        assert np.allclose(jax.jit(lambda x: inner(inner(x)))(x), 2 * (both[:, :2] + both[:, 2:]))
        grads = jax.jit(jax.grad(lambda x: layer(layer(x)).sum()))(x)
        assert np.isfinite(grads).all()

    ring(2).run(body, **QUIET)


def test_two_hundred_operations_in_any_order_and_one_thread(ring):
    def body():
        import random
        import time

        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd

        hvd.init()
        order = list(range(200))
        if tuple(map(int, jax.__version__.split("."))) >= (0, 5):
            # Older ones do one operation after the other: there the programs of all ranks must be the same.
            random.Random(hvd.rank()).shuffle(order)
        chance = random.Random(hvd.rank() + 100)

        def late(x):
            time.sleep(chance.random() / 500)
            return np.asarray(x)

        @jax.jit
        def everything(x):
            results = [None] * len(order)
            for number in order:
                own = x + float(number)
                if number % 20 == 0:
                    own = jax.pure_callback(late, jax.ShapeDtypeStruct(own.shape, own.dtype), own)
                results[number] = hvd.allreduce(own, op=hvd.Sum, name=f"number_{number}")
            return jnp.stack(results)

        for _ in range(3):
            results = everything(jnp.full([10], float(hvd.rank())))
            assert (np.asarray(results)[:, 0] == np.arange(200) * 2 + 1).all()

    one = {"NPROC": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
    for variables in ({}, one):
        ring(2).run(body, **QUIET, **variables)


def test_what_is_compiled_once_and_occurs_often_reduces_under_a_name_for_each(ring):
    def body():
        import re
        import time

        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd

        hvd.init()
        rank = hvd.rank()

        def scanned(x):
            return jax.lax.scan(lambda carry, row: (carry + hvd.allreduce(row), row), 0.0, x)[0]

        def chosen(x):
            return jax.lax.cond(x[0] > 0, lambda x: hvd.allreduce(x), lambda x: x, x)

        inner = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))
        forms = [inner, jax.jit(lambda x: 2 * inner(x)), jax.checkpoint(lambda x: hvd.allreduce(x)), scanned, chosen]
        forms += [lambda x: hvd.allreduce(x, name="given"), jax.jit(lambda x: hvd.allreduce(x), inline=True)]
        for form in forms:
            text = jax.jit(lambda x: form(x) + form(2 * x)).lower(jnp.ones(3)).as_text()
            names = re.findall(r'request = "[^"]* (\S+)"', text)
            assert len(names) == 2 and len(set(names)) == 2, (form, names)

        def late(x):
            # What comes early on one rank comes late on the other.
            time.sleep(0.002 * (int(x[0]) % 2))
            return np.asarray(x)

        @jax.jit
        def everything(x):
            results = []
            for number in range(200):
                own = x + float(number)
                if number % 20 < 2:
                    own = jax.pure_callback(late, jax.ShapeDtypeStruct(own.shape, own.dtype), own)
                results.append(inner(own))
            return jnp.stack(results)

        for _ in range(3):
            results = everything(jnp.full([10], float(rank)))
            assert (np.asarray(results)[:, 0] == np.arange(200) * 2 + 1).all(), results[:, 0]

    ring(2).run(body, **QUIET)


def test_steps_that_nobody_waits_for_keep_their_order(ring):
    def body():
        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd

        hvd.init()
        rank = hvd.rank()
        if rank:
            # What is traced before does not change the names.
            jax.jit(lambda x: hvd.allreduce(x)).lower(jnp.ones(3))
        work = jax.jit(lambda x: (hvd.allreduce(x, op=hvd.Sum), hvd.allreduce(x @ x.T, op=hvd.Sum)))
        results = [work(jnp.full([64, 64], float(number + rank))) for number in range(50)]
        for number, (total, _) in enumerate(results):
            assert (total == 2 * number + 1).all()

    ring(2).run(body, **QUIET)


def test_what_ranks_disagree_about_is_an_error_on_all_and_the_session_goes_on(ring):
    def body():
        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd
        from ronde.jax._compatible import JaxRuntimeError

        hvd.init()
        rank = hvd.rank()

        def fails(kind, act, *parts):
            try:
                jax.block_until_ready(act())
            except kind as error:
                assert all(part in str(error) for part in parts), error
            else:
                raise AssertionError("it went through")

        for name, wrap, kind in (("a", lambda f: f, hvd.MismatchError), ("b", jax.jit, (JaxRuntimeError, ValueError))):
            reduce = wrap(lambda x: hvd.allreduce(x, name=name))
            fails(kind, lambda: reduce(jnp.ones(rank + 1)), f"allreduce.{name}", "ranks 0 and 1")
            fails(kind, lambda: reduce(jnp.ones(2, jnp.int32 if rank else jnp.float32)), f"allreduce.{name}")
            other = wrap(lambda x: hvd.allreduce(x, name=name, op=hvd.Max if rank else hvd.Sum))
            fails(kind, lambda: other(jnp.ones(2)), f"allreduce.{name}")
            root = wrap(lambda x: hvd.broadcast(x, 7, name="root"))
            fails((ValueError, JaxRuntimeError), lambda: root(jnp.ones(2)), "7")
            assert reduce(jnp.ones(2)).tolist() == [1.0, 1.0]
        fails(JaxRuntimeError, lambda: jax.jit(hvd.allgather)(jnp.ones(rank + 1)), "same number of rows")
        fails(ValueError, lambda: jax.jit(hvd.alltoall)(jnp.ones(3)), "3 rows")
        fails(ValueError, lambda: jax.jit(lambda x: hvd.alltoall(x, splits=[1, 1]))(jnp.ones(2)), "inside of jit")
        fails(ValueError, lambda: hvd.allreduce(jnp.ones(2, jnp.complex64)), "complex64")
        fails(JaxRuntimeError, lambda: jax.jit(hvd.allreduce)(jnp.ones(2, jnp.complex64)), "not supported")
        assert hvd.allreduce(jnp.ones(2)).tolist() == [1.0, 1.0]

    ring(2).run(body, **QUIET)


def test_a_rank_that_dies_in_the_middle_of_a_computation_is_an_error_of_the_ring(ring):
    def body():
        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd
        from ronde.jax._compatible import JaxRuntimeError

        hvd.init()
        step = jax.jit(lambda x: (hvd.allreduce(x, name="a"), hvd.allreduce(x, name="b")))
        jax.block_until_ready(step(jnp.ones(10)))
        if hvd.rank() == 1:
            os._exit(7)
        try:
            while True:
                jax.block_until_ready(step(jnp.ones(10)))
        except (JaxRuntimeError, ValueError) as error:
            assert hvd.elastic._is_of_the_ring(error), error
        try:
            hvd.allreduce(jnp.ones(10))
            raise AssertionError("it went through")
        except hvd.HorovodInternalError:
            pass

    codes = [code for code, _ in ring(2).run(body, check=False, **QUIET)]
    assert codes == [0, 7]


def test_optimizers_apply_what_all_ranks_have_found(ring):
    def body():
        import jax
        import jax.numpy as jnp
        import optax
        import ronde.jax as hvd

        hvd.init()
        rank = hvd.rank()
        params = {"a": jnp.zeros(3), "b": jnp.zeros([2, 2]), "c": jnp.zeros([])}
        grads = jax.tree_util.tree_map(lambda each: each + rank + 1.0, params)
        options = [
            {},
            {"groups": 2},
            {"compression": hvd.Compression.fp16},
            {"gradient_predivide_factor": 2.0},
            {"name": "named"},
        ]
        for wrap in (lambda function: function, jax.jit):
            for option in options:
                optimizer = hvd.DistributedOptimizer(optax.sgd(1.0), **option)
                updates, _ = wrap(optimizer.update)(grads, optimizer.init(params), params)
                assert all((each == -1.5).all() for each in updates.values()), (option, updates)
            optimizer = hvd.DistributedOptimizer(
                optax.adam(0.1), backward_passes_per_step=2, average_aggregated_gradients=True
            )
            state, seen = optimizer.init(params), []
            own = params
            for number in range(4):
                updates, state = wrap(optimizer.update)(grads, state, own)
                own = optax.apply_updates(own, updates)
                seen.append(float(own["c"]))
            assert seen[0] == 0.0 and seen[1] == seen[2] < 0.0 and seen[3] < seen[1], seen
        mine = {"w": jnp.full(3, float(rank)), "key": jax.random.key(rank), "step": rank, "np": np.array(rank / 3)}
        first = hvd.broadcast_parameters(mine, root_rank=1)
        assert first["w"].tolist() == [1.0] * 3 and first["step"] == 1 and first["np"] == 1 / 3
        assert (jax.random.key_data(first["key"]) == jax.random.key_data(jax.random.key(1))).all()

    ring(2).run(body, **QUIET)


def test_a_state_is_saved_restored_and_sent_even_if_its_memory_is_given_away(ring):
    def body():
        import functools

        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd

        hvd.init()
        rank = hvd.rank()
        sampler = hvd.elastic.ElasticSampler(range(10), shuffle=False)
        state = hvd.elastic.JaxState(params={"w": jnp.full(4, float(rank))}, batch=rank, sampler=sampler)

        @functools.partial(jax.jit, donate_argnums=0)
        def step(params):
            return {"w": params["w"] + 1}

        state.params = step(state.params)
        state.sampler.record_batch(0, 2)
        state.restore()
        assert state.params["w"].tolist() == [rank] * 4 and state.sampler.processed_num == 0
        state.params = step(state.params)
        state.restore()
        assert state.params["w"].tolist() == [rank] * 4
        state.sampler.record_batch(0, 2)
        state.sync()
        assert state.params["w"].tolist() == [0.0] * 4 and state.batch == 0
        assert list(state.sampler) == [4 + rank, 6 + rank, 8 + rank]

    ring(2).run(body, **QUIET)


@pytest.mark.parametrize("form", ["at once", "in jit"])
def test_ctrl_c_is_heard_while_an_operation_waits(ring, form):
    def body():
        import signal
        import threading
        import time

        import jax
        import jax.numpy as jnp
        import ronde.jax as hvd
        from ronde.jax._compatible import JaxRuntimeError

        hvd.init()
        reduce = jax.jit(hvd.allreduce) if os.environ["FORM"] == "in jit" else hvd.allreduce
        reduce(jnp.ones(4)).block_until_ready()
        if hvd.rank() == 1:
            time.sleep(8)
            os._exit(0)
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        try:
            try:
                reduce(jnp.ones(4)).block_until_ready()
            except (JaxRuntimeError, ValueError):
                # XLA's error may come first; Python hears of the signal with the next call.
                time.sleep(0.1)
        except KeyboardInterrupt:
            os._exit(0 if time.monotonic() - begun < 6 else 4)
        os._exit(3)

    ring(2).run(body, FORM=form, **QUIET)


@pytest.mark.parametrize("script", ["jax_mnist.py"])
def test_digits_are_learned(script, examples):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    command = [HOROVODRUN, "-np", "2", sys.executable, str(examples / script)]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), **QUIET)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"accuracy: (0\.\d+)\s*$", done.stdout)
    assert found and float(found.group(1)) > 0.95, done.stdout


def test_an_elastic_training_outlives_a_rank_and_takes_a_new_one(tmp_path, examples):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    program = [str(examples / "elastic/jax_mnist_elastic.py"), "--epochs", "30", "--pause", "0.02"]
    job = Job(tmp_path, ["localhost:2"], "-np 2 --min-np 1 --max-np 3", program, **QUIET)
    try:
        job.wait_for(r"Step #20\t.*ring of 2")
        job.kill(1)
        after = job.wait_for(r"ring 2: 1 rank")
        job.set_hosts(["localhost:3"])
        job.wait_for(r"\(ring of 3\)", after)
        job.end()
    finally:
        job.process.kill()
    found = [re.search(r"accuracy: (0\.\d+)$", line) for line in job.lines]
    assert any(each and float(each.group(1)) > 0.95 for each in found), str(job)
