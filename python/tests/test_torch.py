"""PyTorch: every operation and its gradient, optimizers, broadcasts, batch normalisation, elastic states."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture(autouse=True, params=["engine", "gloo"])
def backend(request, monkeypatch):
    """Every test also as on a GPU, with Gloo on the CPU for NCCL."""
    monkeypatch.setenv("RONDE_DEVICE_BACKENDS", "cpu:gloo" if request.param == "gloo" else "")


def test_operations_in_all_their_forms(ring):
    def body():
        import horovod.torch as hvd
        import torch

        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        types = [torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
        for dtype in types:
            own = torch.arange(1, 5).to(dtype) + rank
            total = sum(torch.arange(1, 5).to(dtype) + each for each in range(size))
            assert torch.equal(hvd.allreduce(own, op=hvd.Sum), total)
            assert torch.equal(hvd.synchronize(hvd.allreduce_async(own, op=hvd.Sum)), total)
            assert torch.equal(hvd.grouped_allreduce([own, own], op=hvd.Sum)[1], total)
            changed = own.clone()
            assert hvd.allreduce_(changed, op=hvd.Sum) is changed and torch.equal(changed, total)
            group = [own.clone(), own.clone()]
            hvd.grouped_allreduce_(group, op=hvd.Sum)
            assert torch.equal(group[1], total)
            changed = own.clone()
            hvd.broadcast_(changed, 1)
            assert torch.equal(changed, torch.arange(1, 5).to(dtype) + 1)
        assert hvd.allgather(torch.full((rank,), rank)).tolist() == [1, 2, 2]
        received, rows = hvd.alltoall(torch.arange(6) + 10 * rank, splits=[1, 2, 3])
        assert rows.tolist() == [rank + 1] * 3 and received.numel() == 3 * (rank + 1)
        assert hvd.reducescatter(torch.ones(3, 2), op=hvd.Sum).tolist() == [[3, 3]]
        half = hvd.allreduce(torch.ones(4), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
        assert half.tolist() == [6.0] * 4
        assert hvd.allreduce(torch.tensor([1 / 3]), compression=hvd.Compression.fp16).dtype == torch.float32

    ring(3).run(body)


def test_what_is_no_tensor_is_refused_in_a_sentence(ring):
    def body():
        import horovod.torch as hvd
        import torch

        hvd.init()
        array, tensor = np.ones(2, np.float32), torch.ones(2)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        expected = "horovod.torch works on torch.Tensor, not numpy.ndarray: convert it with torch.from_numpy(), or use ronde.numpy"
        calls = [
            lambda: hvd.allreduce(array),
            lambda: hvd.allreduce(array, compression=hvd.Compression.fp16),
            lambda: hvd.allreduce_(array),
            lambda: hvd.synchronize(hvd.allreduce_async(array)),
            lambda: hvd.grouped_allreduce([array]),
            lambda: hvd.allgather(array),
            lambda: hvd.grouped_allgather([array]),
            lambda: hvd.broadcast(array, 0),
            lambda: hvd.broadcast_(array, 0),
            lambda: hvd.alltoall(array),
            lambda: hvd.reducescatter(array),
            lambda: hvd.grouped_reducescatter([array]),
        ]
        for number, call in enumerate(calls):
            try:
                call()
            except TypeError as error:
                assert str(error) == expected, (number, error)
            else:
                raise AssertionError(f"{number} took what is no tensor")
        calls = [lambda: hvd.allreduce(tensor, op="sum"), lambda: hvd.DistributedOptimizer(optimizer, op="sum")]
        for call in calls:
            try:
                call()
            except ValueError as error:
                assert str(error) == "op must be one of Average, Sum, Adasum, Min, Max, Product, not 'sum'", error
            else:
                raise AssertionError("a word was taken for a reduction")

    ring(1).run(body)


# A barrier does not wait for what is done on devices.
@pytest.mark.parametrize("backend", ["engine"], indirect=True)
def test_a_new_model_learns_after_a_step_was_interrupted(ring):
    def body():
        import horovod.torch as hvd
        import torch

        class Interrupt(torch.autograd.Function):
            """Ends the backward pass in the middle: the gradients of the layers above are on their way by then."""

            @staticmethod
            def forward(ctx, tensor):
                return tensor.clone()

            @staticmethod
            def backward(ctx, gradient):
                raise KeyboardInterrupt

        def step(interrupt):
            model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
            below = model[0](torch.full((2, 4), 1.0 + hvd.rank()))
            below = Interrupt.apply(below) if interrupt == "backward" else below
            model[2](model[1](below)).sum().backward()
            if interrupt == "step":
                raise KeyboardInterrupt
            optimizer.step()
            assert len({tuple(each) for each in hvd.allgather_object(model[0].bias.grad.tolist())}) == 1

        def interrupted(where):
            try:
                step(where)
            except KeyboardInterrupt:
                return
            raise AssertionError("nothing was interrupted")

        hvd.init()
        for where in ["backward", "step", "backward"]:
            torch.manual_seed(1)
            interrupted(where)
            # What was asked for before the interruption is done before this is.
            hvd.barrier()
            step(None)
        # Ranks that were interrupted in different places have nothing in common but a new beginning.
        interrupted(["backward", "step"][hvd.rank()])
        hvd.shutdown()
        hvd.init()
        torch.manual_seed(1)
        step(None)

    ring(2).run(body)


def test_gradients_of_operations(ring):
    def body():
        import horovod.torch as hvd
        import torch

        hvd.init()
        rank, size = hvd.rank(), hvd.size()

        def gradient(operation, rows=4):
            tensor = torch.ones(rows, requires_grad=True)
            result = operation(tensor)
            result.backward(torch.ones_like(result))
            return tensor.grad.tolist()

        assert gradient(lambda t: hvd.allreduce(t, op=hvd.Sum)) == [size] * 4
        assert gradient(lambda t: hvd.allreduce(t)) == [1] * 4
        assert gradient(lambda t: hvd.allgather(t), rows=rank + 1) == [1] * (rank + 1)
        assert gradient(lambda t: hvd.broadcast(t, 0)) == [1 if rank == 0 else 0] * 4
        assert gradient(lambda t: hvd.alltoall(t)) == [1] * 4
        assert gradient(lambda t: hvd.reducescatter(t, op=hvd.Sum)) == [size] * 4
        assert gradient(lambda t: hvd.grouped_allreduce([t, t], op=hvd.Sum)[0]) == [size] * 4

    ring(2).run(body)


@pytest.mark.parametrize(
    "how",
    [
        "dict()",
        "dict(compression=hvd.Compression.bf16)",
        "dict(groups=2)",
        "dict(gradient_predivide_factor=2.0)",
        "dict(backward_passes_per_step=2)",
        "dict(op=hvd.Sum)",
        "dict(op=hvd.Adasum)",
    ],
)
def test_an_optimizer_steps_as_one_process_with_all_the_data(ring, how):
    def body():
        import horovod.torch as hvd
        import torch

        hvd.init()
        options = eval(os.environ["HOW"])
        passes = options.get("backward_passes_per_step", 1)
        torch.manual_seed(1)
        model, alone = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        alone.load_state_dict(model.state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), **options)
        assert type(optimizer).__name__ == "SGD" and isinstance(optimizer, torch.optim.SGD)
        optimizer.set_backward_passes_per_step(passes)
        assert optimizer.backward_passes_per_step == passes
        reference = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            data = torch.randn(2, passes, 4, 3)
            optimizer.zero_grad(set_to_none=True)
            reference.zero_grad()
            for each in range(passes):
                model(data[hvd.rank()][each]).pow(2).mean().backward()
            optimizer.step()
            factor = 1 if options.get("op") == hvd.Sum else 0.5
            (sum(alone(part).pow(2).mean() for part in data.reshape(-1, 4, 3)) * factor).backward()
            reference.step()
        everyones = hvd.allgather(model.weight.detach().unsqueeze(0))
        assert torch.equal(everyones[0], everyones[1])
        if options.get("op") != hvd.Adasum:
            tolerance = 0.05 if "compression" in options else 1e-5
            assert torch.allclose(model.weight, alone.weight, atol=tolerance), (model.weight, alone.weight)

    ring(2).run(body, HOW=how)


def test_misuse_of_an_optimizer_is_told(ring):
    def body():
        import horovod.torch as hvd
        import torch

        hvd.init()
        model = torch.nn.Linear(2, 1)

        def refuses(error, act):
            try:
                act()
            except error:
                return
            raise AssertionError(f"{error} was expected")

        def make(**options):
            return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1), **options)

        refuses(ValueError, lambda: make(named_parameters=[("a", model.weight)]))
        refuses(ValueError, lambda: make(named_parameters=[("a", model.weight), ("a", model.bias)]))
        refuses(ValueError, lambda: make(gradient_predivide_factor=2.0, op=hvd.Sum))
        optimizer = make(named_parameters=model.named_parameters())
        model(torch.ones(1, 2)).sum().backward()
        refuses(AssertionError, optimizer.zero_grad)
        refuses(AssertionError, lambda: model(torch.ones(1, 2)).sum().backward())
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            optimizer.step()
        optimizer.zero_grad()

    ring(2).run(body)


def test_sparse_gradients(ring):
    def body():
        import horovod.torch as hvd
        import torch

        hvd.init()
        for as_dense in (False, True):
            table = torch.nn.Embedding(4, 2, sparse=True)
            hvd.broadcast_parameters(table.state_dict(), 0)
            before = table.weight.detach().clone()
            optimizer = torch.optim.SGD(table.parameters(), lr=1.0)
            optimizer = hvd.DistributedOptimizer(optimizer, sparse_as_dense=as_dense)
            table(torch.tensor([hvd.rank(), 3])).sum().backward()
            optimizer.step()
            moved = (before - table.weight.detach())[:, 0]
            assert torch.allclose(moved, torch.tensor([0.5, 0.5, 0.0, 1.0]), atol=1e-6), moved

    ring(2).run(body)


def test_models_and_optimizers_are_broadcast(ring):
    def body():
        import horovod.torch as hvd
        import torch

        hvd.init()
        torch.manual_seed(hvd.rank())
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 + hvd.rank())
        if hvd.rank() == 0:
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        told = hvd.allgather_object((model.state_dict(), optimizer.state_dict()))
        for key, value in told[0][0].items():
            assert torch.equal(value, told[1][0][key])
        assert told[1][1]["param_groups"][0]["lr"] == 0.1
        for number, values in told[0][1]["state"].items():
            assert torch.equal(values["exp_avg"], told[1][1]["state"][number]["exp_avg"])
            assert values["exp_avg"].abs().sum() > 0

    ring(2).run(body)


def test_batches_are_normalised_over_all_ranks(ring):
    def body():
        import horovod.torch as hvd
        import torch

        hvd.init()
        torch.manual_seed(0)
        data = torch.randn(2, 5, 3, 4)
        weight = torch.randn(2, 5, 3, 4)
        synced, plain = hvd.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)
        own = data[hvd.rank()].clone().requires_grad_()
        everything = data.reshape(10, 3, 4).clone().requires_grad_()
        result, expected = synced(own), plain(everything)
        part = slice(5 * hvd.rank(), 5 * hvd.rank() + 5)
        assert torch.allclose(result, expected[part], atol=1e-5)
        (result * weight[hvd.rank()]).sum().backward()
        (expected * weight.reshape(10, 3, 4)).sum().backward()
        assert torch.allclose(own.grad, everything.grad[part], atol=1e-5)
        assert torch.allclose(hvd.allreduce(synced.weight.grad, op=hvd.Sum), plain.weight.grad, atol=1e-4)
        assert torch.allclose(synced.running_var, plain.running_var, atol=1e-5)

    ring(2).run(body)


def test_an_elastic_training_goes_on_after_a_death(ring):
    def body():
        import signal

        import horovod.torch as hvd
        import torch

        hvd.init()
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sampler = hvd.elastic.ElasticSampler(range(24), shuffle=False)
        state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, batch=0)
        sizes = []

        @hvd.elastic.run
        def train(state):
            while state.batch < 4:
                if state.batch == 2 and hvd.rank() == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                sizes.append(hvd.size())
                hvd.allreduce(torch.ones(1), name="step")
                state.sampler.record_batch(state.batch, 2)
                state.batch += 1
                # What a launcher would say when it has noticed.
                os.environ["HOROVOD_SIZE"] = "2"
                state.commit()

        train(state)
        assert sizes[:2] == [3, 3] and sizes[-2:] == [2, 2], sizes
        assert state.sampler.processed_num == 2 * 2 * 3 + 2 * 2 * 2, state.sampler.processed_num

    results = ring(3).run(body, check=False)
    assert [code for code, _ in results] == [0, 0, -9], results


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_digits_are_learned(ring, examples, size):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")

    def body():
        import runpy

        sys.argv = ["pytorch_mnist.py", "--epochs", "8"]
        runpy.run_path(os.environ["SCRIPT"], run_name="__main__")

    results = ring(size).run(body, SCRIPT=str(examples / "pytorch_mnist.py"))
    accuracy = float(results[0][1].rsplit("accuracy: ", 1)[1].split("%")[0])
    assert accuracy > 95, results[0][1]


def test_ranks_of_torchrun_meet_through_its_store(ring):
    """The store is PyTorch's own, as torchrun's agent runs it."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)

    def body():
        for name in list(os.environ):
            if name.startswith("HOROVOD_") or name == "RONDE_SECRET":
                del os.environ[name]
        import horovod.torch as hvd

        for _ in range(2):
            hvd.init()
            assert hvd.allgather_object((hvd.rank(), hvd.local_rank())) == [(0, 0), (1, 1)]
            hvd.shutdown()

    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    ring(2).run(body, per_rank=lambda rank: {"RANK": str(rank), "LOCAL_RANK": str(rank)}, **variables)


@pytest.mark.skipif(
    torch.__version__.startswith("1.") and sys.version_info >= (3, 11),
    reason="torchrun of PyTorch 1 does not run on Python 3.11",
)
def test_ranks_of_torchrun_meet(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import horovod.torch as hvd\n"
        "for _ in range(2):\n"
        "    hvd.init()\n"
        "    assert hvd.allgather_object((hvd.rank(), hvd.local_rank())) == [(0, 0), (1, 1)]\n"
        "    hvd.shutdown()\n"
        "print('met')\n"
    )
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.count("met")) == (0, 2), done.stdout + done.stderr
