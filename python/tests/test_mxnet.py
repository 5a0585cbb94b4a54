"""MXNet: every operation, the optimizer, the trainer, and parameters that get their shape late."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from test_launch import HOROVODRUN, TIMEOUT_SECONDS

if importlib.util.find_spec("mxnet") is None:
    pytest.skip("MXNet is not installed", allow_module_level=True)


def test_operations(ring):
    def body():
        import horovod.mxnet as hvd
        import mxnet as mx

        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        for dtype in ("uint8", "int8", "int32", "int64", "float16", "float32", "float64"):
            own = mx.nd.array([[1, 2], [3, 4]], dtype=dtype) * (rank + 1)
            total = np.array([[1, 2], [3, 4]]) * 3
            assert (hvd.allreduce(own, op=hvd.Sum).asnumpy() == total).all()
            assert (hvd.allgather(own).asnumpy()[2 * rank : 2 * rank + 2] == own.asnumpy()).all()
            assert (hvd.broadcast(own, 1).asnumpy() == np.array([[1, 2], [3, 4]]) * 2).all()
            assert (hvd.reducescatter(own, op=hvd.Sum).asnumpy() == total[rank : rank + 1]).all()
            assert hvd.alltoall(own).shape == (2, 2)
            assert hvd.allreduce(own, op=hvd.Sum).dtype == own.dtype
            assert (own.asnumpy() == np.array([[1, 2], [3, 4]]) * (rank + 1)).all()
            assert hvd.allreduce_(own, op=hvd.Max) is own and own.asnumpy().max() == 8
        rows, came = hvd.alltoall(mx.nd.arange(3), splits=mx.nd.array([1 + rank, 2 - rank], dtype="int32"))
        assert came.asnumpy().tolist() == ([1, 2] if rank == 0 else [2, 1]) and rows.shape == (3,)
        both = hvd.grouped_allreduce([mx.nd.ones(2), mx.nd.ones((2, 2), dtype="float64")], prescale_factor=2.0)
        assert [each.asnumpy().tolist() for each in both] == [[2, 2], [[2, 2], [2, 2]]]
        assert [len(each) for each in hvd.grouped_allgather([mx.nd.ones(1), mx.nd.ones(2)])] == [2, 4]
        assert len(hvd.grouped_reducescatter([mx.nd.ones(4)])[0]) == 2
        assert hvd.broadcast_object({"rank": rank}, 1) == {"rank": 1}
        assert hvd.allgather_object(rank) == [0, 1]
        assert isinstance(hvd.allreduce(mx.np.ones(2)), mx.np.ndarray)

    ring(2).run(body)


def test_an_operation_waits_for_what_is_computed_and_changes_only_what_it_should(ring):
    def body():
        import horovod.mxnet as hvd
        import mxnet as mx

        hvd.init()
        large = mx.nd.ones((1000, 1000)) * (hvd.rank() + 1)
        for _ in range(5):
            product = mx.nd.dot(large, large)
            # Both are under way when the engine gets the first one, in place.
            later = product + 1
            hvd.allreduce_(product, op=hvd.Sum)
            assert product.asnumpy()[0, 0] == 1000 + 4000
            assert later.asnumpy()[0, 0] == 1000 * (hvd.rank() + 1) ** 2 + 1
        part = mx.nd.zeros((4, 2))
        hvd.allreduce_(part[1:3], op=hvd.Sum)
        part[1:3] += 1
        hvd.allreduce_(part[1:3], op=hvd.Sum)
        assert part.asnumpy().tolist() == [[0, 0], [2, 2], [2, 2], [0, 0]]
        # Results are arrays like any other.
        assert (hvd.allreduce(part) * 2).asnumpy().max() == 4

    ring(2).run(body)


def test_what_cannot_be_done_is_said(ring):
    def body():
        import horovod.mxnet as hvd
        import mxnet as mx
        import pytest

        hvd.init()
        with pytest.raises(TypeError, match="horovod.mxnet works on mx.nd.NDArray, not numpy.ndarray"):
            hvd.allreduce(np.ones(2))
        with pytest.raises(ValueError, match="storage type row_sparse"):
            hvd.allreduce(mx.nd.sparse.zeros("row_sparse", (2, 2)))
        with pytest.raises(mx.MXNetError, match="32-bit"):
            hvd.alltoall(mx.nd.ones(2), splits=mx.nd.array([1, 1], dtype="float32"))
        with pytest.raises(hvd.HorovodInternalError):
            hvd.allreduce(mx.nd.ones(2 + hvd.rank()), name="mismatch")

    ring(2).run(body)


def test_an_optimizer_uses_the_average(ring):
    def body():
        import horovod.mxnet as hvd
        import mxnet as mx

        hvd.init()
        for groups in (0, 2):
            optimizer = hvd.DistributedOptimizer(
                mx.optimizer.SGD(learning_rate=0.5), gradient_predivide_factor=2.0, num_groups=groups
            )
            optimizer.set_learning_rate(1.0)
            weight = mx.nd.ones(2)
            state = optimizer.create_state_multi_precision(0, weight)
            optimizer.update_multi_precision(0, weight, mx.nd.ones(2) * hvd.rank(), state)
            assert weight.asnumpy().tolist() == [0.5, 0.5], weight
            weights = [mx.nd.ones(1), mx.nd.ones(1)]
            optimizer.update([1, 2], weights, [mx.nd.ones(1) * 2 * hvd.rank()] + [mx.nd.zeros(1)], [None, None])
            assert [each.asscalar() for each in weights] == [0, 1]
            assert optimizer.learning_rate == optimizer.lr == 1.0

    ring(2).run(body)


def test_a_trainer_keeps_all_ranks_alike_also_with_parameters_that_come_late(ring):
    def body():
        import horovod.mxnet as hvd
        import mxnet as mx
        import pytest
        from mxnet import autograd, gluon

        hvd.init()
        mx.random.seed(hvd.rank())
        for compression, groups in ((hvd.Compression.none, 0), (hvd.Compression.fp16, 0), (hvd.Compression.none, 2)):
            net = gluon.nn.HybridSequential(prefix="net_")
            net.add(gluon.nn.Dense(4, in_units=3), gluon.nn.Dense(2))
            net.initialize(mx.init.Xavier())
            params = net.collect_params()
            hvd.broadcast_parameters(params, root_rank=1, prefix=f"{compression}{groups}")
            trainer = hvd.DistributedTrainer(
                params, "sgd", {"learning_rate": 0.1}, compression=compression, num_groups=groups
            )
            for step in range(3):
                with autograd.record():
                    loss = net(mx.nd.random.normal(shape=(5, 3))).sum()
                loss.backward()
                trainer.step(5)
            mine = [param.data().asnumpy() for param in params.values()]
            for other in hvd.allgather_object(mine):
                assert all((one == two).all() for one, two in zip(mine, other))
        with pytest.warns(UserWarning, match="takes the optimizer inside"):
            hvd.DistributedTrainer(params, hvd.DistributedOptimizer(mx.optimizer.SGD()), prefix="second")

    ring(2).run(body)


def test_digits_are_learned(examples):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    command = [HOROVODRUN, "-np", "2", sys.executable, str(examples / "mxnet_mnist.py")]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"accuracy: (0\.\d+)\s*$", done.stdout)
    assert found and float(found.group(1)) > 0.95, done.stdout
