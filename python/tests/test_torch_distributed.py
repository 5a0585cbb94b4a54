"""The backend `ronde` of torch.distributed: every collective beside Gloo, what is built on them, and ranks that die."""

import os
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 2):
    pytest.skip("the backend needs PyTorch 2.2", allow_module_level=True)


@pytest.fixture
def group(ring, tmp_path):
    """Ranks that know where to meet: `start()` makes the group of all, and returns rank and size."""
    (tmp_path / "meet.py").write_text(
        "import os\n"
        "import torch.distributed as dist\n"
        "import ronde.torch.distributed\n\n\n"
        "def start(backend='ronde', **more):\n"
        "    rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
        f"    dist.init_process_group(backend, init_method='file://{tmp_path}/store', rank=rank, world_size=size, **more)\n"
        "    return rank, size\n"
    )

    def run(size, body, **more):
        def per_rank(rank):
            return {"RANK": str(rank), "WORLD_SIZE": str(size)}

        return ring(size).run(body, per_rank=per_rank, **more)

    return run


@pytest.mark.parametrize("size, seed", [(2, 1), (3, 2), (4, 3)])
def test_every_collective_gives_what_gloo_gives(group, size, seed):
    def body():
        import random

        import torch
        import torch.distributed as dist
        from meet import start

        rank, size = start()
        shared = random.Random(int(os.environ["SEED"]))
        own = random.Random(shared.randrange(1000) * 7 + rank)
        Op = dist.ReduceOp
        reductions = [Op.SUM, Op.AVG, Op.MIN, Op.MAX, Op.PRODUCT, Op.BAND, Op.BOR, Op.BXOR]
        floats = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
        integers = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
        moved = [*floats, *integers, torch.bool, torch.complex64]

        # Sets of ranks, each as a group of ours and one of Gloo's.
        sets = [list(range(size))]
        for _ in range(2):
            sets.append(sorted(shared.sample(range(size), shared.randrange(1, size + 1))))
        pairs = [(ranks, dist.new_group(ranks, backend="ronde"), dist.new_group(ranks, backend="gloo")) for ranks in sets]

        def tensor(shape, dtype, is_contiguous=True):
            count = torch.Size(shape).numel()
            values = torch.tensor([own.randrange(1, 4) for _ in range(count)], dtype=torch.int64).reshape(shape)
            if is_contiguous or not shape or values.dim() < 2:
                return values.to(dtype)
            return values.to(dtype).t().contiguous().t() if values.dim() == 2 else values.to(dtype)

        def shape():
            return [shared.choice([0, 1, 2, 3, 5]) for _ in range(shared.randrange(0, 3))] if shared.random() < 0.8 else [40000]

        def gathered(value, gloo, members):
            """Everybody's tensor, by Gloo, which has few types: as bytes."""
            parts = [None] * members
            dist.all_gather_object(parts, value, group=gloo)
            return parts

        def reduced(parts, op):
            wide = [part.clone() for part in parts]
            total = wide[0]
            steps = {
                Op.SUM: torch.add, Op.AVG: torch.add, Op.PRODUCT: torch.mul, Op.MIN: torch.minimum, Op.MAX: torch.maximum,
                Op.BAND: torch.bitwise_and, Op.BOR: torch.bitwise_or, Op.BXOR: torch.bitwise_xor,
            }
            for part in wide[1:]:
                total = steps[op](total, part)
            if op == Op.AVG:
                total = total / len(parts) if total.is_floating_point() else torch.div(total, len(parts), rounding_mode="trunc")
            return total

        def same(one, other):
            return one.dtype == other.dtype and one.shape == other.shape and torch.allclose(
                one.to(torch.complex128), other.to(torch.complex128), rtol=1e-2 if one.dtype in floats[:2] else 1e-6
            )

        def operation(kind, ranks, ours, gloo):
            """Returns how to begin it with ours, what to compare, and what Gloo makes of the same."""
            members, me, root = len(ranks), ranks.index(rank), shared.choice(ranks)
            dims, dtype, op = shape(), shared.choice(moved), shared.choice(reductions)
            is_contiguous = shared.random() < 0.7
            if "reduce" in kind:
                dtype = shared.choice(integers if op in (Op.BAND, Op.BOR, Op.BXOR) else [*floats, *integers])
            value = tensor(dims, dtype, is_contiguous)
            parts = gathered(value, gloo, members)
            if kind in ("all_reduce", "reduce"):
                target = value.clone(memory_format=torch.preserve_format)
                wanted = reduced(parts, op)
                if kind == "all_reduce":
                    return lambda sync: dist.all_reduce(target, op, group=ours, async_op=not sync), target, wanted
                expected = wanted if rank == root else value
                return lambda sync: dist.reduce(target, root, op, group=ours, async_op=not sync), target, expected
            if kind == "broadcast":
                target = value.clone(memory_format=torch.preserve_format)
                return lambda sync: dist.broadcast(target, root, group=ours, async_op=not sync), target, parts[ranks.index(root)]
            if kind == "all_gather":
                outputs = [torch.zeros_like(value) for _ in ranks]
                return lambda sync: dist.all_gather(outputs, value, group=ours, async_op=not sync), outputs, parts
            if kind == "all_gather_uneven":
                value = tensor([me + 1, 2], dtype)
                outputs = [torch.zeros(member + 1, 2, dtype=dtype) for member in range(members)]
                parts = gathered(value, gloo, members)
                return lambda sync: dist.all_gather(outputs, value, group=ours, async_op=not sync), outputs, parts
            if kind == "all_gather_into_tensor":
                value = tensor([3, 2], dtype, is_contiguous)
                parts = gathered(value, gloo, members)
                output = torch.zeros(3 * members, 2, dtype=dtype)
                return lambda sync: dist.all_gather_into_tensor(output, value, group=ours, async_op=not sync), output, torch.cat(parts)
            if kind == "reduce_scatter":
                inputs = [tensor(dims, dtype, is_contiguous) for _ in ranks]
                output = torch.zeros(dims, dtype=dtype)
                wanted = reduced([part[me] for part in gathered(inputs, gloo, members)], op)
                return lambda sync: dist.reduce_scatter(output, inputs, op, group=ours, async_op=not sync), output, wanted
            if kind == "reduce_scatter_tensor":
                value = tensor([2 * members, 3], dtype, is_contiguous)
                wanted = reduced([part[2 * me : 2 * me + 2] for part in gathered(value, gloo, members)], op)
                output = torch.zeros(2, 3, dtype=dtype)
                return lambda sync: dist.reduce_scatter_tensor(output, value, op, group=ours, async_op=not sync), output, wanted
            if kind == "all_to_all_single":
                rows = [[shared.randrange(3) for _ in ranks] for _ in ranks]
                value = tensor([sum(rows[me]), 2], dtype)
                parts = gathered(value, gloo, members)
                received = [rows[member][me] for member in range(members)]
                output = torch.zeros(sum(received), 2, dtype=dtype)
                wanted = torch.cat([part.split(rows[member])[me] for member, part in enumerate(parts)])
                return (
                    lambda sync: dist.all_to_all_single(output, value, received, rows[me], group=ours, async_op=not sync),
                    output,
                    wanted,
                )
            if kind == "all_to_all":
                sizes = [[shared.randrange(4) for _ in ranks] for _ in ranks]
                inputs = [tensor([count], dtype) for count in sizes[me]]
                outputs = [torch.zeros(sizes[member][me], dtype=dtype) for member in range(members)]
                wanted = [part[me] for part in gathered(inputs, gloo, members)]
                return lambda sync: dist.all_to_all(outputs, inputs, group=ours, async_op=not sync), outputs, wanted
            if kind == "gather":
                outputs = [torch.zeros_like(value) for _ in ranks] if rank == root else None
                return (
                    lambda sync: dist.gather(value, outputs, root, group=ours, async_op=not sync),
                    outputs or [],
                    parts if rank == root else [],
                )
            inputs = [tensor(dims, dtype, is_contiguous) for _ in ranks]
            wanted = gathered(inputs, gloo, members)[ranks.index(root)][me]
            output = torch.zeros(dims, dtype=dtype)
            return (
                lambda sync: dist.scatter(output, inputs if rank == root else None, root, group=ours, async_op=not sync),
                output,
                wanted,
            )

        kinds = [
            "all_reduce", "reduce", "broadcast", "all_gather", "all_gather_uneven", "all_gather_into_tensor",
            "reduce_scatter", "reduce_scatter_tensor", "all_to_all_single", "all_to_all", "gather", "scatter",
        ]
        done = 0
        for batch in range(20):
            planned = []
            for _ in range(4):
                kind, chosen, is_sync = shared.choice(kinds), shared.randrange(len(pairs)), shared.random() < 0.3
                state = shared.getstate()
                ranks, ours, gloo = pairs[chosen]
                if rank in ranks:
                    planned.append((chosen, kind, operation(kind, ranks, ours, gloo), is_sync))
                # Members have used a different amount of chance than the others.
                shared.setstate(state)
                shared.random()
            # Groups come in any order, and each in its own order.
            in_turn = {chosen: [plan for plan in planned if plan[0] == chosen] for chosen in range(len(pairs))}
            works = []
            is_quick = batch % 2
            order = sorted({plan[0] for plan in planned}, key=lambda _: own.random()) if is_quick else sorted(in_turn)
            for chosen in order:
                for _, kind, (begin, *compared), is_sync in in_turn[chosen]:
                    works.append((kind, begin(is_sync and not is_quick), compared))
            own.shuffle(works)
            for kind, work, (found, wanted) in works:
                if work is not None:
                    if own.random() < 0.3:
                        work.get_future().wait()
                    elif own.random() < 0.3:
                        while not work.is_completed():
                            pass
                    work.wait()
                found, wanted = ([each] if isinstance(each, torch.Tensor) else each for each in (found, wanted))
                assert len(found) == len(wanted), kind
                for one, other in zip(found, wanted):
                    assert same(one, other), f"batch {batch}: {kind} of {other.dtype} gave {one}, not {other}"
                done += 1
        assert done > 20, done
        dist.barrier()
        dist.destroy_process_group()

    group(size, body, SEED=str(seed))


def test_ddp_with_all_that_it_can_do(group):
    def body():
        import torch
        import torch.distributed as dist
        from meet import start
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        from torch.nn.parallel import DistributedDataParallel as DDP

        rank, size = start()

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.used = torch.nn.Linear(4, 300), torch.nn.Linear(300, 1)
                self.unused = torch.nn.Linear(300, 1)

            def forward(self, x):
                return self.used(torch.relu(self.first(x)))

        def trained(make, steps=3, accumulate=False):
            """Gradients of the last step with our backend, and of one process that sees all data."""
            torch.manual_seed(0)
            model, alone = Model(), Model()
            alone.load_state_dict(model.state_dict())
            wrapped = make(model)
            data = torch.randn(steps, size, 8, 4)
            for step in range(steps):
                model.zero_grad()
                alone.zero_grad()
                if accumulate:
                    with wrapped.no_sync():
                        wrapped(data[step, rank, :4]).mean().backward()
                    wrapped(data[step, rank, 4:]).mean().backward()
                    for each in range(size):
                        ((alone(data[step, each, :4]).mean() + alone(data[step, each, 4:]).mean()) / size).backward()
                else:
                    wrapped(data[step, rank]).mean().backward()
                    alone(data[step].flatten(0, 1)).mean().backward()
            return [(one.grad, other.grad) for one, other in zip(model.parameters(), alone.parameters()) if other.grad is not None]

        def check(what, grads, tolerance=1e-6):
            for found, wanted in grads:
                assert torch.allclose(found, wanted, atol=tolerance), f"{what}: {found} is not {wanted}"

        unused = {"find_unused_parameters": True}
        check("plain", trained(lambda model: DDP(model, **unused)))
        check("small buckets", trained(lambda model: DDP(model, bucket_cap_mb=0.001, **unused)))
        check("views", trained(lambda model: DDP(model, gradient_as_bucket_view=True, **unused)))
        check("no_sync", trained(lambda model: DDP(model, **unused), accumulate=True))

        def hooked(hook):
            def make(model):
                wrapped = DDP(model, **unused)
                wrapped.register_comm_hook(None, hook)
                return wrapped

            return make

        check("allreduce_hook", trained(hooked(default_hooks.allreduce_hook)))
        check("bf16_compress_hook", trained(hooked(default_hooks.bf16_compress_hook)), 1e-2)

        def own_hook(state, bucket):
            work = dist.all_reduce(bucket.buffer(), op=dist.ReduceOp.AVG, async_op=True)
            return work.get_future().then(lambda future: future.value()[0])

        check("own hook", trained(hooked(own_hook)))
        # Ranks with different numbers of batches.
        model = DDP(torch.nn.Linear(2, 1))
        with model.join():
            for _ in range(2 + rank):
                model(torch.ones(3, 2)).sum().backward()
        dist.destroy_process_group()

    group(2, body)


def test_fsdp_tensor_parallel_meshes_zero_and_checkpoints(group, tmp_path):
    def body():
        import torch
        import torch.distributed as dist
        import torch.distributed.checkpoint as dcp
        from meet import start
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
        from torch.distributed.optim import ZeroRedundancyOptimizer
        from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        from torch.nn.parallel import DistributedDataParallel as DDP

        rank, size = start()

        def model():
            torch.manual_seed(0)
            return torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, 4))

        torch.manual_seed(1)
        data = torch.randn(5, size, 6, 8)

        def train(module, optimizer, of_rank):
            losses = []
            for step in range(len(data)):
                optimizer.zero_grad()
                loss = module(data[step, of_rank]).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses

        # One process that sees all data.
        alone = model()
        optimizer = torch.optim.Adam(alone.parameters(), lr=0.01)
        for step in range(len(data)):
            optimizer.zero_grad()
            alone(data[step].flatten(0, 1)).square().mean().backward()
            optimizer.step()
        wanted = {name: value.detach() for name, value in alone.named_parameters()}

        def check(what, found):
            for name, value in found.items():
                value = value.full_tensor() if isinstance(value, DTensor) else value
                assert torch.allclose(value, wanted[name], atol=1e-5), f"{what}: {name} is {value}, not {wanted[name]}"

        # FSDP2, over the whole group and over a mesh of two dimensions.
        for mesh in [init_device_mesh("cpu", (size,)), init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("r", "s"))]:
            sharded = model()
            for layer in (sharded[0], sharded[2]):
                fully_shard(layer, mesh=mesh)
            fully_shard(sharded, mesh=mesh)
            train(sharded, torch.optim.Adam(sharded.parameters(), lr=0.01), rank)
            check(f"FSDP2 over {mesh}", dict(sharded.named_parameters()))

        # A checkpoint of it, read into another.
        folder = os.environ["FOLDER"]
        dcp.save({"model": sharded.state_dict()}, checkpoint_id=folder)
        other = fully_shard(model())
        state = {"model": other.state_dict()}
        dcp.load(state, checkpoint_id=folder)
        other.load_state_dict(state["model"])
        check("checkpoint", dict(other.named_parameters()))

        # FSDP1.
        old = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
        train(old, torch.optim.Adam(old.parameters(), lr=0.01), rank)
        with FullyShardedDataParallel.summon_full_params(old):
            check("FSDP1", {name.replace("_fsdp_wrapped_module.", ""): value.detach() for name, value in old.named_parameters()})

        # Optimizer states shared out.
        zero = DDP(model())
        optimizer = ZeroRedundancyOptimizer(zero.parameters(), torch.optim.Adam, lr=0.01)
        train(zero, optimizer, rank)
        check("ZeRO", {name.removeprefix("module."): value.detach() for name, value in zero.named_parameters()})
        optimizer.consolidate_state_dict(to=0)

        # Tensor parallel: all ranks see the same data.
        mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
        parallel = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        plain = model()
        found = train(parallel, torch.optim.SGD(parallel.parameters(), lr=0.1), 0)
        assert torch.allclose(torch.tensor(found), torch.tensor(train(plain, torch.optim.SGD(plain.parameters(), lr=0.1), 0)), atol=1e-5)

        # DTensors on a mesh of two dimensions, from one layout to another.
        mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
        whole = torch.arange(64.0).reshape(8, 8)
        spread = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
        moved = spread.redistribute(mesh, [Shard(1), Replicate()]).redistribute(mesh, [Replicate(), Shard(0)])
        assert torch.equal(moved.full_tensor(), whole)
        assert torch.equal((spread @ spread).full_tensor(), whole @ whole)
        assert mesh["dp"].get_group().size() == 2
        dist.destroy_process_group()

    group(4, body, FOLDER=str(tmp_path / "checkpoint"))


def test_functional_collectives_and_compiled_models(group):
    def body():
        import shutil

        import torch
        import torch.distributed as dist
        import torch.distributed._functional_collectives as funcol
        from meet import start
        from torch.nn.parallel import DistributedDataParallel as DDP

        rank, size = start()

        def step(x):
            total = funcol.all_reduce(x * 2, "sum", dist.group.WORLD)
            rows = funcol.all_gather_tensor(x, 0, dist.group.WORLD)
            part = funcol.reduce_scatter_tensor(rows, "sum", 0, dist.group.WORLD)
            return total + part, rows + 1

        x = torch.full((4,), float(rank + 1))
        eager = step(x)
        assert torch.equal(eager[0], torch.full((4,), 6.0) + size * x), eager
        backends = ["aot_eager", *(["inductor"] if shutil.which("g++") or shutil.which("c++") else [])]
        for backend in backends:
            compiled = torch.compile(step, backend=backend, fullgraph=True)
            for one, other in zip(compiled(x), eager):
                assert torch.allclose(one, other), backend
        torch.manual_seed(0)
        model = torch.compile(DDP(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))), backend=backends[-1])
        for _ in range(2):
            model(torch.full((2, 4), float(rank))).sum().backward()
        grads = torch.cat([parameter.grad.view(-1) for parameter in model.parameters()])
        others = [torch.empty_like(grads) for _ in range(size)]
        dist.all_gather(others, grads)
        assert all(torch.equal(each, grads) for each in others)
        dist.destroy_process_group()

    group(2, body)


def test_messages_find_their_receiver(group):
    def body():
        import torch
        import torch.distributed as dist
        from meet import start

        rank, size = start()
        # A ring in which everybody sends first.
        own, other = torch.full((3, 2), float(rank)).t(), torch.zeros(2, 3)
        operations = [dist.P2POp(dist.isend, own, (rank + 1) % size), dist.P2POp(dist.irecv, other, (rank - 1) % size)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert torch.equal(other, torch.full((2, 3), float((rank - 1) % size)))
        # Tags pass each other, and messages of one tag do not.
        if rank == 0:
            works = [dist.isend(torch.tensor([float(number)]), 1, tag=number % 2) for number in range(6)]
            [work.wait() for work in works]
        elif rank == 1:
            found = {tag: [torch.zeros(1) for _ in range(3)] for tag in (1, 0)}
            works = [dist.irecv(each, 0, tag=tag) for tag in (1, 0) for each in found[tag]]
            [work.wait() for work in reversed(works)]
            assert [float(each) for each in found[0]] == [0, 2, 4] and [float(each) for each in found[1]] == [1, 3, 5]
        # From anybody; what was asked of others meanwhile is not lost.
        if rank == 2:
            numbers = torch.zeros(2, dtype=torch.int32)
            seen = {dist.recv(numbers, tag=7): numbers.tolist() for _ in range(size - 1)}
            assert seen == {each: [each, each] for each in range(size) if each != 2}, seen
            dist.barrier()
            for each in (1, 0):
                assert dist.recv(numbers, each, tag=7) == each and numbers.tolist() == [-each, 0]
        else:
            dist.send(torch.tensor([rank, rank], dtype=torch.int32), 2, tag=7)
            # Else both messages of one rank may come before the first of the other.
            dist.barrier()
            dist.send(torch.tensor([-rank, 0], dtype=torch.int32), 2, tag=7)
        # Whoever takes from anybody more than once may get all from the same rank.
        if rank == 0:
            numbers = [torch.zeros(1) for _ in range(3)]
            works = [dist.irecv(numbers[0], tag=8), dist.irecv(numbers[1], tag=8), dist.irecv(numbers[2], 1, tag=8)]
            [work.wait() for work in works]
            assert sorted(float(each) for each in numbers) == [1, 2, 3], numbers
        elif rank == 1:
            [dist.send(torch.tensor([float(number)]), 0, tag=8) for number in (1, 2, 3)]
        # A message of another size is an error that says who sent it.
        if rank == 0:
            dist.send(torch.zeros(3), 1)
        elif rank == 1:
            try:
                dist.recv(torch.zeros(2), 0)
            except dist.DistBackendError as error:
                assert "rank 0 sent 12 bytes, and rank 1 expected 8" in str(error), error
            else:
                raise AssertionError("a message of another size was taken")
        objects = [{"rank": rank}]
        dist.broadcast_object_list(objects, src=1)
        assert objects == [{"rank": 1}]
        dist.barrier()
        dist.destroy_process_group()

    group(3, body)


def test_a_first_message_that_is_waited_for_keeps_nobody_from_the_store(group):
    def body():
        import torch
        import torch.distributed as dist
        from meet import start

        rank, size = start()
        # One that lets nobody in while somebody waits, as torchrun's.
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if rank == 0 else None
        ports = [store.port if store else 0]
        dist.broadcast_object_list(ports, src=0)
        store = store or dist.TCPStore("127.0.0.1", ports[0], is_master=False)
        dist.destroy_process_group()
        dist.init_process_group("ronde", store=store, rank=rank, world_size=size)
        number = torch.zeros(1)
        work = dist.irecv(number, 0) if rank == 1 else None
        other = dist.new_group()
        if rank == 0:
            # A future may be asked for before the two have met.
            dist.isend(torch.ones(1), 1).get_future().wait()
        elif rank == 1:
            work.wait()
            assert number.item() == 1
        dist.barrier(group=other)
        # One that never comes ends with the group.
        late = dist.irecv(number, tag=1) if rank == 2 else None
        dist.barrier()
        dist.destroy_process_group()
        if rank == 2:
            try:
                late.wait()
            except dist.DistBackendError as error:
                assert "destroyed" in str(error), error
            else:
                raise AssertionError("a message came from nowhere")

    group(3, body)


def test_coalescing_scaling_and_the_rest_of_the_surface(group, tmp_path):
    def body():
        import datetime

        import torch
        import torch.distributed as dist
        from meet import start

        rank, size = start()
        with dist._coalescing_manager(async_ops=True) as manager:
            tensors = [torch.full((2,), float(rank + each)) for each in range(3)]
            for each in tensors:
                dist.all_reduce(each)
        manager.wait()
        assert [each.tolist() for each in tensors] == [[2.0 * each + 1] * 2 for each in range(3)]
        with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
            dist.all_reduce(tensors[0])
        manager.wait()
        assert tensors[0].tolist() == [2.0, 2.0]
        scaled = torch.full((2,), float(rank + 1))
        dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(0.5))
        assert scaled.tolist() == [1.5, 1.5]
        for wrong, text in [
            (lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND), "needs integers"),
            (lambda: dist.all_reduce(torch.ones(2).to_sparse()), "layout"),
            (lambda: dist.all_gather_into_tensor(torch.ones(3), torch.ones(2)), "must have 4 elements"),
        ]:
            try:
                wrong()
            except (ValueError, RuntimeError) as error:
                assert text in str(error), error
            else:
                raise AssertionError(text)
        # Ranks that disagree hear who, all of them, and go on.
        for wrong in (lambda: dist.all_reduce(torch.ones(2 + rank)), lambda: dist.all_reduce(torch.ones(2, dtype=[torch.float32, torch.int32][rank]))):
            try:
                wrong()
            except dist.DistBackendError as error:
                assert "ranks 0 and 1" in str(error), error
            else:
                raise AssertionError("ranks that disagree were not told")
        dist.monitored_barrier()
        assert dist.get_backend() == "ronde" and dist.group.WORLD.name() == "ronde"
        # Tensors of another device go through its own backend.
        import torch.testing._internal.distributed.fake_pg  # noqa: F401

        mixed = dist.new_group(backend="cpu:ronde,meta:fake")
        dist.all_reduce(torch.ones(2, device="meta"), group=mixed)
        number = torch.ones(1)
        dist.all_reduce(number, group=mixed)
        assert number.item() == 2
        try:
            dist.all_reduce(torch.ones(2, device="meta"))
        except RuntimeError as error:
            assert "works on CPU tensors" in str(error), error
        # The group can be destroyed and made again.
        dist.destroy_process_group()
        dist.init_process_group("ronde", init_method=f"file://{os.environ['AGAIN']}", rank=rank, world_size=size)
        dist.all_reduce(number)
        assert number.item() == 4
        dist.destroy_process_group()
        # Who came to a barrier of the first group has not come to that of the second, on the same store.
        store = dist.FileStore(os.environ["AGAIN"] + ".store", size)
        for number in range(2):
            dist.init_process_group("ronde", store=store, rank=rank, world_size=size)
            if number == 0:
                dist.monitored_barrier()
            elif rank == 0:
                try:
                    dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.2))
                except dist.DistBackendError as error:
                    assert "rank 1 did not come" in str(error), error
                else:
                    raise AssertionError("rank 1 was said to have come")
            dist.barrier()
            dist.destroy_process_group()

    group(2, body, AGAIN=str(tmp_path / "again"))


@pytest.mark.parametrize("what", ["ddp", "fsdp2", "collective", "message"])
def test_a_killed_rank_ends_the_others_at_once(group, what, tmp_path):
    def body():
        import signal
        import time

        import torch
        import torch.distributed as dist
        from meet import start
        from torch.distributed.fsdp import fully_shard
        from torch.nn.parallel import DistributedDataParallel as DDP

        rank, size = start()
        what = os.environ["WHAT"]
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
        model = DDP(model) if what == "ddp" else fully_shard(model) if what == "fsdp2" else model
        told = os.environ["TOLD"]

        def step():
            if what == "collective":
                dist.all_reduce(torch.ones(1000))
            elif what == "message":
                operations = [dist.P2POp(dist.isend, torch.ones(9), 1 - rank), dist.P2POp(dist.irecv, torch.ones(9), 1 - rank)]
                [work.wait() for work in dist.batch_isend_irecv(operations)]
            else:
                model(torch.ones(2, 8)).sum().backward()

        for number in range(1000):
            if number == 5 and rank == 1:
                with open(told, "w") as file:
                    file.write(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                step()
            except RuntimeError as error:
                with open(told) as file:
                    took = time.time() - float(file.read())
                assert "rank 1" in str(error), error
                print(f"told after {took:.3f} s: {error}")
                # A machine that is busy takes some seconds; whoever only gives up takes half an hour.
                assert took < 60, took
                os._exit(0)
        raise AssertionError("nobody noticed")

    size = 2 if what == "message" else 3
    results = group(size, body, check=False, WHAT=what, TOLD=str(tmp_path / "told"))
    codes = [code for code, _ in results]
    assert codes == [0, -9, 0][:size], "\n".join(output for _, output in results)


def test_a_rank_that_does_not_come_is_named_when_the_time_is_over(group, tmp_path):
    def body():
        import time
        from datetime import timedelta

        import torch
        import torch.distributed as dist
        from meet import start

        # The time is for what is tested, and not for a rank that is slow to start.
        open(os.environ["HERE"] + os.environ["RANK"], "w").close()
        while not os.path.exists(os.environ["HERE"] + str(1 - int(os.environ["RANK"]))):
            time.sleep(0.01)
        rank, size = start(timeout=timedelta(seconds=10))
        try:
            if rank == 0:
                dist.monitored_barrier(timeout=timedelta(seconds=0.3))
        except dist.DistBackendError as error:
            assert "rank 1 did not come within 0.3 s" in str(error), error
        begun = time.monotonic()
        work = dist.all_reduce(torch.ones(2), async_op=True) if rank == 0 else None
        if rank == 0:
            try:
                work.wait(timedelta(seconds=0.2))
            except RuntimeError as error:
                assert "timed out after 0.2 s" in str(error), error
            try:
                work.wait()
            except RuntimeError as error:
                assert "Missing ranks:\n1: [#0]" in str(error) and time.monotonic() - begun < 60, error
                print("ended:", error)
            else:
                raise AssertionError("an operation ended without its other rank")
            open(os.environ["TOLD"], "w").close()
        else:
            while not os.path.exists(os.environ["TOLD"]):
                time.sleep(0.01)

    group(2, body, TOLD=str(tmp_path / "told"), HERE=str(tmp_path / "here"))


SCRIPT = """
import ronde.torch.distributed
import torch, torch.distributed as dist
dist.init_process_group("ronde")
number = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(number)
print(f"sum {number.item()} of {dist.get_world_size()}\\n", end="", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("launcher", ["ronde run", "torchrun", "mpirun", "by hand"])
def test_whatever_starts_the_ranks(launcher, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
    start = {
        "ronde run": [os.environ.get("RONDE_HOROVODRUN", "horovodrun"), "-np", "2", sys.executable, str(script)],
        "torchrun": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)],
        "mpirun": [*mpirun, sys.executable, str(script)],
        "by hand": [sys.executable, str(script)],
    }[launcher]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    if launcher == "by hand":
        import socket

        # It stays bound, so that nobody else is given the port; the store may listen there all the same.
        free = socket.socket()
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        environments = [
            dict(environment, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)) for rank in range(2)
        ]
    else:
        environments = [environment]
    try:
        ranks = [
            subprocess.Popen(start, env=each, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for each in environments
        ]
    except FileNotFoundError:
        pytest.skip(f"{start[0]} is not installed")
    output = "".join(rank.communicate(timeout=240)[0] for rank in ranks)
    assert len(re.findall("sum 3 of 2", output)) == 2, output


@pytest.mark.parametrize(
    "example, package",
    [
        ("pytorch_ddp.py", None),
        ("pytorch_fsdp2.py", None),
        ("lightning_ddp.py", "lightning"),
        ("accelerate_ddp.py", "accelerate"),
    ],
)
def test_examples_learn(example, package, examples):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    if package is not None:
        pytest.importorskip(package, reason=f"{package} is not installed")
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(examples / example)]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), OMP_NUM_THREADS="1")
    done = subprocess.run(start, env=environment, capture_output=True, text=True, timeout=240)
    accuracies = [float(found) for found in re.findall(r"accuracy ([0-9.]+) on 2 ranks", done.stdout)]
    assert len(accuracies) == 5 and accuracies[-1] > 0.85, done.stdout + done.stderr


def test_lightning_starts_its_ranks_itself(examples):
    pytest.importorskip("lightning", reason="lightning is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    start = [sys.executable, str(examples / "lightning_ddp.py"), "--devices", "2"]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), OMP_NUM_THREADS="1")
    done = subprocess.run(start, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "epoch 5: accuracy 0.9" in done.stdout, done.stdout + done.stderr


def test_horovod_and_forked_loaders_in_the_same_process(group):
    def body():
        import horovod.torch as hvd
        import torch
        import torch.distributed as dist
        from meet import start

        rank, size = start()
        hvd.init()
        work = dist.all_reduce(torch.ones(3), async_op=True)
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size] * 2
        work.wait()
        loader = torch.utils.data.DataLoader(range(8), batch_size=4, num_workers=1, multiprocessing_context="fork")
        for batch in loader:
            total = batch.sum()
            dist.all_reduce(total)
            assert total == size * batch.sum()
        hvd.shutdown()
        dist.all_reduce(total)
        dist.destroy_process_group()

    group(2, body)
