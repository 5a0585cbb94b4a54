"""The backend `ronde` of torch.distributed: every collective beside Gloo, what is built on them, and ranks that die."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not hasattr(torch, "distributed") or tuple(map(int, torch.__version__.split(".")[:2])) < (2, 2):
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


@pytest.mark.parametrize("size, seed", [(2, 1), (3, 2), (4, 3), (3, 4)])
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
