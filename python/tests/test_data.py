"""Loaders that load ahead, and samplers, without a framework."""

import threading

import pytest
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader


class Numbers(BaseDataLoader):
    """Three batches an epoch; a loader that fails does so in the second one of the second epoch."""

    def __init__(self, fails=False):
        self.fails = fails
        self.epochs = 0
        self.threads = set()

    def __len__(self):
        return 3

    def _iterate(self):
        self.epochs += 1
        for batch in range(3):
            self.threads.add(threading.current_thread())
            if self.fails and (self.epochs, batch) == (2, 1):
                raise OSError("the disk is gone")
            yield 10 * self.epochs + batch

    def _process_batch(self, batch):
        return str(batch)


class Ahead(AsyncDataLoaderMixin, Numbers):
    pass


def test_epochs_keep_apart_however_far_the_thread_is_ahead():
    for size in (1, 2, 64):
        loader = Ahead(async_loader_queue_size=size)
        epochs = [list(loader) for _ in range(3)]
        assert epochs == [["10", "11", "12"], ["20", "21", "22"], ["30", "31", "32"]]
        assert threading.current_thread() not in loader.threads and len(loader.threads) == 1
        loader.close_async_loader()
        assert not loader.thread.is_alive()


def test_without_a_queue_there_is_no_thread():
    loader = Ahead(0)
    assert list(loader) == ["10", "11", "12"] and loader.threads == {threading.current_thread()}
    loader.close_async_loader()


def test_an_error_of_the_thread_reaches_the_reader_after_what_came_before_it():
    loader = Ahead(fails=True)
    assert list(loader) == ["10", "11", "12"]
    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        seen.extend(loader)
    assert seen == ["20"]
    assert list(loader) == ["30", "31", "32"]
    loader.close_async_loader()


def test_a_loader_that_is_closed_in_the_middle_is_over():
    loader = Ahead(async_loader_queue_size=1)
    batches = iter(loader)
    assert next(batches) == "10"
    loader.close_async_loader()
    assert list(batches) == []
    with pytest.raises(RuntimeError, match="the loader is closed"):
        list(loader)
    loader.close_async_loader()


def test_a_loader_that_was_never_used_can_be_closed():
    Ahead().close_async_loader()


def test_what_is_left_of_an_epoch_is_cut_anew(ring):
    def body():
        import ronde
        from ronde._sampler import ShardedSampler
        from ronde.elastic import ObjectState

        ronde.init()
        sampler = ShardedSampler(range(10), seed=3)
        state = ObjectState(sampler=sampler, note="a")
        mine = list(sampler)
        assert len(mine) == len(sampler) == 5
        assert sorted(sum(ronde.allgather_object(mine), [])) == list(range(10))
        sampler.record_indices(mine[:2])
        state.save()
        if ronde.rank() == 0:
            sampler.record_batch(1, 2)
        # Whoever is furthest is right; what was not saved comes again.
        state.sync()
        assert sampler.processed_num == 8 and len(sampler) == 1
        sampler.record_batch(2, 1)
        state.restore()
        assert sampler.processed_num == 8
        left = sum(ronde.allgather_object(list(sampler)), [])
        assert sorted(left) == sorted(sampler.remaining_indices)
        sampler.set_epoch(1)
        assert len(sampler) == 5 and list(sampler) != mine
        # Three ranks' worth of samples for two: the last round is filled.
        assert len(ShardedSampler(range(3))) == 2

    ring(2).run(body)
