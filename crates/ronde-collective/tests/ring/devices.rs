//! Operations on tensors that the engine cannot reach: what is handed over, in which order, and how it ends.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ronde_collective::{DataType, Device, DeviceBatch, Engine, Error, Operation, Rank, ReduceOp, SetId, Tensor, Work};
use ronde_sim::wait_until;

use crate::fixture::{Spread, allreduce, barrier, floats, ring};

const PATIENCE: Duration = Duration::from_secs(60);

fn on_device(name: &str, ticket: u64, operation: Operation, rows: usize) -> Work {
    let tensor = Tensor::new(DataType::F32, [rows], Vec::new());
    Work::new(name, operation, vec![tensor]).at(Device { name: "gpu".into(), ticket })
}

fn sum(name: &str, ticket: u64) -> Work {
    on_device(name, ticket, Operation::Allreduce(ReduceOp::Sum.into()), 4)
}

/// The next batch of all ranks.
fn take(engine: &Engine) -> DeviceBatch {
    let look = || engine.take_device_batch(SetId::GLOBAL, Duration::from_millis(100)).unwrap();
    wait_until("the next batch", PATIENCE, look)
}

fn tickets(batch: &DeviceBatch) -> Vec<Option<u64>> {
    batch.operations().map(|operation| operation.ticket).collect()
}

#[test]
fn all_ranks_are_handed_the_same_batches_whatever_order_they_asked_in() {
    for spread in Spread::ALL {
        let seen = ring(3, spread, |engine| {
            let mut names: Vec<u64> = (0..20).collect();
            names.rotate_left(7 * engine.rank().0);
            let handles: Vec<_> =
                names.iter().map(|name| engine.submit(sum(&format!("t{name}"), *name)).unwrap()).collect();
            // What the engine reaches goes on beside it.
            assert_eq!(floats(&engine.run(allreduce("near", ReduceOp::Sum, &[1.0])).unwrap(), 0), [3.0]);
            let mut seen = Vec::new();
            while seen.iter().map(Vec::len).sum::<usize>() < 20 {
                let batch = take(engine);
                assert_eq!((batch.device(), batch.operation()), ("gpu", Operation::Allreduce(ReduceOp::Sum.into())));
                seen.push(tickets(&batch));
                batch.finish();
            }
            handles.into_iter().for_each(|handle| drop(handle.wait(Some(PATIENCE)).expect("it hangs").unwrap()));
            assert_eq!(engine.counters().on_devices, 20);
            seen
        });
        assert_eq!(seen[0], seen[1], "{spread:?}");
        assert_eq!(seen[0], seen[2], "{spread:?}");
    }
}

#[test]
fn what_members_bring_is_known_and_an_average_is_a_sum_with_a_factor() {
    ring(2, Spread::OneHost, |engine| {
        let me = engine.rank().0;
        let gather = engine.submit(on_device("g", 1, Operation::Allgather, me + 5)).unwrap();
        let batch = take(engine);
        assert_eq!(batch.operations().next().unwrap().rows, [[5, 6]]);
        batch.finish();
        let splits = Some(vec![1, me]);
        let exchange = engine.submit(on_device("a", 2, Operation::Alltoall { splits }, 2)).unwrap();
        let batch = take(engine);
        assert_eq!(batch.operations().next().unwrap().splits, [[1, 0], [1, 1]]);
        batch.finish();
        assert_eq!(exchange.wait(None).unwrap().unwrap().received_splits, [[1, 1], [0, 1]][me]);
        let average = Operation::Allreduce(ReduceOp::Average.into());
        let mean = engine.submit(on_device("m", 3, average, 1)).unwrap();
        let batch = take(engine);
        let Operation::Allreduce(reduction) = batch.operation() else { panic!("{:?}", batch.operation()) };
        assert_eq!((reduction.op, reduction.postscale), (ReduceOp::Sum, 0.5));
        batch.finish();
        mean.wait(None).unwrap().unwrap();
        gather.wait(None).unwrap().unwrap();
    });
}

#[test]
fn a_rank_that_has_joined_is_handed_what_the_others_do() {
    ring(2, Spread::OneHost, |engine| {
        if engine.rank() == Rank(1) {
            let join = engine.submit(Work::new("join", Operation::Join, Vec::new())).unwrap();
            let batch = take(engine);
            assert_eq!(tickets(&batch), [None]);
            assert_eq!(batch.operations().next().unwrap().tensors[0].1, [4].into());
            batch.finish();
            return drop(join.wait(None));
        }
        let handle = engine.submit(sum("x", 1)).unwrap();
        take(engine).finish();
        handle.wait(None).unwrap().unwrap();
        engine.run(Work::new("join", Operation::Join, Vec::new())).unwrap();
    });
}

#[test]
fn ranks_whose_tensors_are_in_different_places_are_told_so() {
    let errors = ring(2, Spread::OneHost, |engine| {
        let here = allreduce("x", ReduceOp::Sum, &[1.0; 4]);
        let work = if engine.rank() == Rank(0) { here } else { sum("x", 1) };
        let error = engine.run(work).unwrap_err();
        engine.run(barrier("goes on")).unwrap();
        error.to_string()
    });
    let expected = "Mismatched ALLREDUCE device selection: One rank specified device CPU, but another rank specified \
                    device GPU. (`x`: ranks 0 and 1)";
    assert_eq!(errors, [expected, expected]);
}

#[test]
fn what_fails_on_one_rank_ends_on_all() {
    for spread in [Spread::OneHost, Spread::Tcp] {
        let errors = ring(3, spread, |engine| {
            let handle = engine.submit(sum("x", 1)).unwrap();
            let batch = take(engine);
            if engine.rank() == Rank(1) {
                batch.fail("out of memory");
            } else {
                // In the middle of it, as a backend that waits for its peers.
                std::mem::forget(batch);
            }
            let error = handle.wait(Some(PATIENCE)).expect("it hangs").unwrap_err();
            assert!(engine.run(barrier("later")).unwrap_err().is_fatal(), "{spread:?}");
            error
        });
        assert_eq!(errors[1], Error::Device("out of memory".to_owned()), "{spread:?}");
        for error in [&errors[0], &errors[2]] {
            assert!(matches!(error, Error::Lost { rank: Rank(1), .. }), "{spread:?}: {error}");
        }
    }
}

#[test]
fn a_batch_that_is_dropped_ends_the_ring() {
    let errors = ring(2, Spread::OneHost, |engine| {
        let handle = engine.submit(sum("x", 1)).unwrap();
        drop(take(engine));
        handle.wait(Some(PATIENCE)).expect("it hangs").unwrap_err()
    });
    assert!(errors.iter().all(Error::is_fatal), "{errors:?}");
}

#[test]
fn a_rank_that_is_done_may_leave_before_the_others_are() {
    for spread in [Spread::OneHost, Spread::Tcp] {
        let has_left = AtomicBool::new(false);
        ring(2, spread, |engine| {
            let handle = engine.submit(sum("x", 1)).unwrap();
            if engine.rank() == Rank(0) {
                take(engine).finish();
                handle.wait(None).unwrap().unwrap();
                engine.shutdown();
                has_left.store(true, Ordering::SeqCst);
                return;
            }
            wait_until("the other rank leaves", PATIENCE, || has_left.load(Ordering::SeqCst).then_some(()));
            // This rank has noticed by now that nothing more is to come.
            assert!(engine.run(barrier("y")).is_err());
            take(engine).finish();
            handle.wait(Some(PATIENCE)).expect("it hangs").unwrap();
            assert!(engine.take_device_batch(SetId::GLOBAL, Duration::ZERO).is_err(), "it has not ended");
        });
    }
}

#[test]
fn an_end_of_the_engine_ends_what_is_on_devices() {
    ring(2, Spread::OneHost, |engine| {
        let handle = engine.submit(sum("x", 1)).unwrap();
        let batch = take(engine);
        let waiting = Arc::new(Mutex::new(None));
        thread::scope(|threads| {
            threads.spawn(|| *waiting.lock().unwrap() = handle.wait(Some(PATIENCE)));
            engine.shutdown();
        });
        let error = waiting.lock().unwrap().take().expect("it hangs").unwrap_err();
        assert!(error.is_fatal(), "{error}");
        batch.finish();
    });
}
