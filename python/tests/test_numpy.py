"""Every operation on arrays, against what one process computes."""

import pytest

SIZES = [1, 2, 3, 4]


@pytest.mark.parametrize("size", SIZES)
def test_operations_give_what_one_process_computes(ring, size):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        rank, size = ronde.rank(), ronde.size()
        assert (rank, size) == (int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"]))
        everyones = [np.arange(1, 7).reshape(2, 3) + 10 * each for each in range(size)]
        for dtype in ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"):
            own = everyones[rank].astype(dtype)
            total = sum(each.astype(dtype) for each in everyones).astype(dtype)
            np.testing.assert_array_equal(rn.allreduce(own, op=rn.Sum), total)
            np.testing.assert_array_equal(rn.allreduce(own, op=rn.Min), everyones[0].astype(dtype))
            np.testing.assert_array_equal(rn.allreduce(own, op=rn.Max), everyones[-1].astype(dtype))
            np.testing.assert_array_equal(rn.broadcast(own, size - 1), everyones[-1].astype(dtype))
            np.testing.assert_array_equal(own, everyones[rank].astype(dtype))
        np.testing.assert_allclose(rn.allreduce(everyones[rank].astype("float32")), np.mean(everyones, axis=0))
        rows = np.full((rank + 1, 2), rank, dtype="int32")
        expected = np.concatenate([np.full((each + 1, 2), each) for each in range(size)])
        np.testing.assert_array_equal(rn.allgather(rows), expected)
        mine = np.arange(size, dtype="int64") + 100 * rank
        np.testing.assert_array_equal(rn.alltoall(mine), np.arange(size) * 100 + rank)
        rn.barrier()

    ring(size).run(body)


@pytest.mark.parametrize("size", SIZES)
def test_uneven_rows_are_scattered_to_the_first_ranks(ring, size):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        rank, size = ronde.rank(), ronde.size()
        rows = np.arange(size + 1, dtype="float64")
        parts = np.array_split(rows * size, size)
        np.testing.assert_array_equal(rn.reducescatter(rows, op=rn.Sum), parts[rank])

    ring(size).run(body)


def test_edges_of_shapes(ring):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        assert rn.allreduce(np.float64(2.5), op=rn.Sum).shape == ()
        assert rn.allreduce(np.zeros((0, 3), "float32")).shape == (0, 3)
        mine = np.ones((ronde.rank() * 2, 3), "float32")
        assert rn.allgather(mine).shape == (2, 3)
        turned = np.arange(6.0).reshape(2, 3).T
        np.testing.assert_array_equal(rn.allreduce(turned, op=rn.Sum), turned * 2)
        try:
            rn.allreduce_(turned)
        except ValueError as error:
            assert "contiguous" in str(error)
        else:
            raise AssertionError("a transposed array was reduced in place")

    ring(2).run(body)


def test_every_form_of_an_operation_gives_the_same(ring):
    """In place, grouped, with a handle: three forms of one."""

    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        rank = ronde.rank()
        one, two = np.arange(4.0) + rank, np.arange(6, dtype="int32").reshape(2, 3) * (rank + 1)
        sums = [np.arange(4.0) * 2 + 1, np.arange(6).reshape(2, 3) * 3]

        def check(found, expected):
            assert len(found) == len(expected)
            for each, other in zip(found, expected):
                np.testing.assert_array_equal(each, other)

        check(rn.grouped_allreduce([one, two], op=rn.Sum), sums)
        check(rn.synchronize(rn.grouped_allreduce_async((one, two), op=rn.Sum)), sums)
        for reduce in (rn.grouped_allreduce_, lambda *a, **k: rn.synchronize(rn.grouped_allreduce_async_(*a, **k))):
            own = [one.copy(), two.copy()]
            found = reduce(own, op=rn.Sum)
            assert found[0] is own[0]
            check(own, sums)
        own = one.copy()
        assert rn.synchronize(rn.allreduce_async_(own, op=rn.Sum)) is own
        check([own], sums[:1])
        twice = [np.concatenate([np.arange(4.0), np.arange(4.0) + 1])]
        check(rn.grouped_allgather([one]), twice)
        check(rn.synchronize(rn.grouped_allgather_async([one])), twice)
        check([rn.synchronize(rn.allgather_async(one))], twice)
        check([rn.synchronize(rn.broadcast_async(one, 1))], [np.arange(4.0) + 1])
        assert rn.synchronize(rn.broadcast_async_(own, 0)) is own
        own = one.copy()
        rn.broadcast_(own, 1)
        check([own], [np.arange(4.0) + 1])
        came = rn.synchronize(rn.alltoall_async(one, np.array([1, 3])))
        check(came, [[0.0, 1.0], [1, 1]] if rank == 0 else [[1.0, 2.0, 3.0, 2.0, 3.0, 4.0], [3, 3]])
        half = [sums[0][2 * rank : 2 * rank + 2]]
        check([rn.synchronize(rn.reducescatter_async(one, op=rn.Sum))], half)
        check(rn.grouped_reducescatter([one], op=rn.Sum), half)
        check(rn.synchronize(rn.grouped_reducescatter_async([one], op=rn.Sum)), half)

    ring(2).run(body)


def test_handles_may_be_waited_for_in_any_order(ring):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        arrays = [np.full(5, float(each)) for each in range(20)]
        order = range(20) if ronde.rank() == 0 else reversed(range(20))
        handles = {each: rn.allreduce_async(arrays[each], name=str(each), op=rn.Sum) for each in order}
        for each in (7, 3, *set(range(20)) - {3, 7}):
            np.testing.assert_array_equal(rn.synchronize(handles[each]), arrays[each] * 2)
        assert rn.synchronize(handles[7]) is None
        try:
            rn.poll(handles[7])
        except ValueError:
            pass
        else:
            raise AssertionError("a taken handle was polled")

    ring(2).run(body)


def test_objects_travel(ring):
    def body():
        import ronde

        ronde.init()
        assert ronde.broadcast_object({"from": ronde.rank()}, root_rank=1) == {"from": 1}
        # Only the root need have one.
        assert ronde.broadcast_object([1] if ronde.rank() == 1 else None, root_rank=1) == [1]
        assert ronde.allgather_object("x" * ronde.rank()) == ["", "x", "xx"]

    ring(3).run(body)


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_operations_of_all_kinds_work_over_every_transport(ring, transport):
    def body():
        import ronde
        import ronde.numpy as rn

        ronde.init()
        rank = ronde.rank()
        for size in (1, 1000, 300_000):
            total = rn.allreduce(np.full(size, rank + 1.0, "float32"), op=rn.Sum)
            assert (total == 6.0).all(), size
        handle = rn.allreduce_async(np.full(10, float(rank)), op=rn.Sum)
        assert (rn.synchronize(handle) == 3.0).all()
        assert rn.allgather(np.full((rank + 1, 2), rank)).shape == (6, 2)
        assert (rn.broadcast(np.full(3, rank), root_rank=2) == 2).all()
        assert ronde.allgather_object({"rank": rank})[2] == {"rank": 2}
        rn.barrier()

    ring(3).run(body, RONDE_TRANSPORT=transport)


def test_threads_get_handles_of_their_own(ring):
    def body():
        import threading

        import ronde.numpy as rn

        rn.init()
        handles = []

        def start(thread):
            handles.extend(rn.allreduce_async(np.ones(1), name=f"{thread}.{turn}") for turn in range(200))

        threads = [threading.Thread(target=start, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(handles)) == len(handles) == 800
        for handle in handles:
            assert rn.synchronize(handle)[0] == 1

    ring(1).run(body)


def test_time_spent_waiting_is_counted(ring):
    def body():
        import time

        import ronde
        import ronde.numpy as rn

        rn.init()
        for _ in range(8):
            rn.barrier()
            before = rn.metrics()["wait_seconds"]
            if rn.rank() == 0:
                time.sleep(0.3)
            rn.allreduce(np.ones(1))
            waited = rn.metrics()["wait_seconds"] - before
            # On a busy machine it may come late itself, and not wait.
            if ronde.broadcast_object(waited > 0.2, root_rank=1):
                return
        raise AssertionError(waited)

    ring(2).run(body)
