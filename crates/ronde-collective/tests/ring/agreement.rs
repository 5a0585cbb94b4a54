//! What ranks agree on, and what they are told when they do not.

use std::time::Duration;

use ronde_collective::{DataType, Error, Handle, Operation, Rank, ReduceOp, Reduction, Tensor, Work};

use ronde_sim::wait_until;

use crate::fixture::{Spread, allreduce, barrier, f32s, floats, matrix, ring};

/// For what other threads will have done soon, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn ranks_may_ask_in_any_order() {
    for spread in [Spread::OneHost, Spread::Tcp] {
        ring(3, spread, |engine| {
            let rank = engine.rank().0;
            for _ in 0..5 {
                let names: Vec<String> = (0..6).map(|index| format!("t{}", (index + rank * 2) % 6)).collect();
                let handles: Vec<_> = names
                    .iter()
                    .map(|name| engine.submit(allreduce(name, ReduceOp::Sum, &[1.0, 2.0])).unwrap())
                    .collect();
                for handle in handles {
                    assert_eq!(floats(&handle.wait(None).unwrap().unwrap(), 0), [3.0, 6.0]);
                }
            }
        });
    }
}

#[test]
fn a_callback_gets_the_result_or_the_refusal_and_its_name_is_free_then() {
    ring(2, Spread::OneHost, |engine| {
        let (sender, receiver) = std::sync::mpsc::channel();
        for _ in 0..3 {
            let sender = sender.clone();
            engine.submit_with_callback(allreduce("x", ReduceOp::Sum, &[1.0]), move |result| {
                sender.send(result).unwrap();
            });
            assert_eq!(floats(&receiver.recv().unwrap().unwrap(), 0), [2.0]);
        }
        let broadcast = Work::new("y", Operation::Broadcast { root: Rank(7) }, vec![f32s(&[1.0])]);
        engine.submit_with_callback(broadcast, move |result| sender.send(result).unwrap());
        assert!(matches!(receiver.recv().unwrap(), Err(Error::Invalid(_))));
    });
}

#[test]
fn many_small_tensors_are_done_together() {
    let fused = ring(2, Spread::OneHost, |engine| {
        for _ in 0..3 {
            let handles: Vec<_> = (0..200)
                .map(|index| {
                    engine.submit(allreduce(&format!("g{index}"), ReduceOp::Sum, &[index as f32; 300])).unwrap()
                })
                .collect();
            for (index, handle) in handles.into_iter().enumerate() {
                assert_eq!(floats(&handle.wait(None).unwrap().unwrap(), 0), [2.0 * index as f32; 300]);
            }
        }
        engine.counters()
    });
    assert_eq!(fused[0].operations, 600);
    assert!(fused[0].rounds < 400, "every tensor had a round of its own: {:?}", fused[0]);
    assert!(fused[0].cache_hits > 0, "the second step asked anew: {:?}", fused[0]);
}

fn work(operation: Operation, tensor: Tensor) -> Work {
    Work::new("x", operation, vec![tensor])
}

fn sum(prescale: f64) -> Operation {
    Operation::Allreduce(Reduction { op: ReduceOp::Sum, prescale, postscale: 1.0 })
}

/// Ranks 0 and 1 ask for different things; both must hear the same, and go on afterwards.
fn check_mismatch(what: &str, asked: impl Fn(usize) -> Work + Sync, expected: &str) {
    for spread in [Spread::OneHost, Spread::Tcp] {
        ring(2, spread, |engine| {
            // The second time the name is known, or forgotten as it should be.
            for _ in 0..2 {
                let error = engine.run(asked(engine.rank().0)).unwrap_err();
                assert_eq!(error, Error::Mismatch(expected.to_owned()), "{what}, {spread:?}");
            }
            let done = engine.run(allreduce("x", ReduceOp::Sum, &[1.0])).unwrap();
            assert_eq!(floats(&done, 0), [2.0], "the engine is of no use after: {what}");
        });
    }
}

#[test]
fn a_mismatch_is_told_to_all_and_harms_nobody() {
    let ints = || Tensor::new(DataType::I32, [2], 7_i64.to_ne_bytes().to_vec());
    check_mismatch(
        "types differ",
        |rank| if rank == 0 { work(sum(1.0), f32s(&[1.0, 2.0])) } else { work(sum(1.0), ints()) },
        "Mismatched data types: One rank had type float32, but another rank had type int32. (`x`: ranks 0 and 1)",
    );
    check_mismatch(
        "shapes differ",
        |rank| work(sum(1.0), matrix(2, 3 + rank, 1.0)),
        "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [2, 3], but another rank sent a tensor of shape [2, 4]. (`x`: ranks 0 and 1)",
    );
    check_mismatch(
        "operations differ",
        |rank| work(if rank == 0 { sum(1.0) } else { Operation::Allgather }, f32s(&[1.0])),
        "Mismatched operations: One rank did an ALLREDUCE, but another rank did an ALLGATHER. (`x`: ranks 0 and 1)",
    );
    check_mismatch(
        "rows differ in length",
        |rank| work(Operation::Allgather, matrix(1 + rank, 2 + rank, 1.0)),
        "Mismatched ALLGATHER tensor shapes: One rank sent a tensor with dimension 1 equal to 2, but another rank sent a tensor with dimension 1 equal to 3. (`x`: ranks 0 and 1)",
    );
    check_mismatch(
        "roots differ",
        |rank| work(Operation::Broadcast { root: Rank(rank) }, f32s(&[1.0])),
        "Mismatched BROADCAST root ranks: One rank specified root rank 0, but another rank specified root rank 1. (`x`: ranks 0 and 1)",
    );
    check_mismatch(
        "factors differ",
        |rank| work(sum(1.0 + rank as f64), f32s(&[1.0])),
        "Mismatched prescale and/or postscale factors: One rank sent factors (1.0, 1.0), but another rank sent factors (2.0, 1.0). (`x`: ranks 0 and 1)",
    );
    check_mismatch(
        "a single value has no rows",
        |_| work(Operation::Allgather, Tensor::new(DataType::F32, [], 1_f32.to_ne_bytes().to_vec())),
        "Process-set rank zero tried to ALLGATHER a rank-zero tensor. (`x`)",
    );
}

#[test]
fn a_mismatch_names_the_rank_that_differs_also_within_a_process_set() {
    ring(4, Spread::OneHost, |engine| {
        let set = engine.add_process_set(&[Rank(1), Rank(2), Rank(3)]).unwrap();
        if engine.rank() == Rank(0) {
            return;
        }
        let shape = if engine.rank() == Rank(3) { matrix(5, 1, 1.0) } else { matrix(2, 1, 1.0) };
        let error = engine.run(work(sum(1.0), shape).on(set)).unwrap_err().to_string();
        assert!(error.contains("shape [2, 1]") && error.contains("shape [5, 1]"), "{error}");
        assert!(error.ends_with("(`x`: ranks 1 and 3)"), "{error}");
        engine.run(barrier("b").on(set)).unwrap();
    });
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_sent() {
    ring(2, Spread::OneHost, |engine| {
        let refused = |work: Work| match engine.run(work) {
            Err(Error::Invalid(text)) => text,
            other => panic!("{other:?}"),
        };
        let few = Tensor::new(DataType::F32, [3], vec![0; 8]);
        assert_eq!(refused(work(sum(1.0), few)), "a float32 tensor of shape [3] does not have 8 bytes");
        let splits = |splits: Option<Vec<usize>>| work(Operation::Alltoall { splits }, f32s(&[1.0, 2.0, 3.0]));
        assert!(refused(splits(Some(vec![1]))).contains("does not equal number of workers"));
        assert!(refused(splits(Some(vec![2, 2]))).contains("greater than the first dimension"));
        assert!(refused(splits(None)).contains("even multiple"));
        assert!(refused(work(Operation::Broadcast { root: Rank(5) }, f32s(&[1.0]))).contains("invalid root rank 5"));
        let truth = Tensor::new(DataType::Bool, [1], vec![1]);
        assert!(refused(work(Operation::Allreduce(ReduceOp::Average.into()), truth)).contains("bool"));
        engine.run(barrier("end")).unwrap();
    });
}

#[test]
fn a_name_is_taken_while_its_operation_is_in_flight() {
    ring(2, Spread::OneHost, |engine| {
        let x = || allreduce("x", ReduceOp::Sum, &[1.0]);
        if engine.rank() == Rank(0) {
            let first = engine.submit(x()).unwrap();
            let error = engine.submit(x()).unwrap_err();
            assert!(matches!(&error, Error::Invalid(text) if text.contains("same name")), "{error}");
            engine.run(barrier("b")).unwrap();
            first.wait(None).unwrap().unwrap();
        } else {
            engine.run(barrier("b")).unwrap();
            engine.run(x()).unwrap();
        }
        engine.run(x()).unwrap();
    });
}

#[test]
fn a_name_is_free_when_its_operation_is_done_whether_its_result_is_taken_or_not() {
    for spread in [Spread::OneHost, Spread::Tcp] {
        ring(2, spread, |engine| {
            let x = |value: f32| allreduce("x", ReduceOp::Sum, &[value]);
            let dropped = engine.submit(x(1.0)).unwrap();
            drop(dropped);
            engine.run(barrier("b")).unwrap();
            let polled = engine.submit(x(2.0)).unwrap();
            wait_until("it is done", LIMIT, || polled.is_done().then_some(()));
            let ignored = engine.submit(x(3.0)).unwrap();
            engine.run(barrier("b")).unwrap();
            // Nobody has asked for that one; a moment later it is free nevertheless.
            let last = wait_until("the name is free", LIMIT, || engine.submit(x(4.0)).ok());
            let sums = [polled, ignored, last].map(|it| floats(&it.wait(None).unwrap().unwrap(), 0));
            assert_eq!(sums, [[4.0], [6.0], [8.0]]);
        });
    }
}

#[test]
fn ranks_may_take_the_results_of_one_name_at_different_times() {
    const STEPS: usize = 200;
    for spread in [Spread::OneHost, Spread::Tcp] {
        ring(3, spread, |engine| {
            let mut held = Vec::new();
            for step in 0..STEPS {
                let handle = engine.submit(allreduce("x", ReduceOp::Sum, &vec![step as f32; 1 + step % 3])).unwrap();
                // Some take every result, some poll, and take none until the end.
                if (engine.rank().0 + step / 50).is_multiple_of(2) {
                    wait_until("it is done", LIMIT, || handle.is_done().then_some(()));
                    held.push((step, handle));
                } else {
                    check_step(step, &handle);
                }
            }
            held.iter().for_each(|(step, handle)| check_step(*step, handle));
        });
    }
}

fn check_step(step: usize, handle: &Handle) {
    assert_eq!(floats(&handle.wait(None).unwrap().unwrap(), 0), vec![3.0 * step as f32; 1 + step % 3]);
}

#[test]
fn groups_are_done_together() {
    for spread in [Spread::OneHost, Spread::Tcp] {
        ring(2, spread, |engine| {
            let tensors = vec![f32s(&[1.0]), f32s(&[2.0; 5000]), matrix(0, 3, 0.0), f32s(&vec![3.0; 100_000])];
            let group = Work::new("g", Operation::Allreduce(ReduceOp::Average.into()), tensors);
            let done = engine.run(group).unwrap();
            assert_eq!(floats(&done, 0), [1.0]);
            assert_eq!(floats(&done, 1), vec![2.0; 5000]);
            assert_eq!(done.tensors[2].shape.0, [0, 3]);
            assert_eq!(floats(&done, 3), vec![3.0; 100_000]);
        });
    }
}

#[test]
fn who_has_joined_changes_nothing() {
    for (op, expected) in [(ReduceOp::Sum, 4.0), (ReduceOp::Min, 2.0), (ReduceOp::Max, 2.0), (ReduceOp::Product, 4.0)] {
        let last = ring(3, Spread::OneHost, |engine| {
            let join = Work::new("", Operation::Join, Vec::new());
            if engine.rank().0 > 0 {
                for length in [2, 50_000] {
                    let done = engine.run(allreduce(&format!("x{length}"), op, &vec![2.0; length])).unwrap();
                    assert_eq!(floats(&done, 0), vec![expected; length], "{op:?}");
                }
                let error = engine.run(work(Operation::Allgather, f32s(&[1.0]))).unwrap_err();
                assert_eq!(
                    error,
                    Error::Mismatch("ALLGATHER is not supported with Join at this time. (`x`)".to_owned())
                );
            }
            engine.run(join).unwrap().last_joined
        });
        assert!(last.iter().all(|rank| *rank == last[0] && rank.is_some()), "{last:?}");
    }
}

#[test]
fn a_group_too_large_for_a_round_is_refused_and_does_not_spin_for_ever() {
    for spread in [Spread::OneHost, Spread::Tcp] {
        ring(2, spread, |engine| {
            let group = |count: usize| {
                let tensors = (0..count).map(|_| f32s(&[1.0])).collect();
                Work::new("group", Operation::Allreduce(ReduceOp::Sum.into()), tensors)
            };
            let error = engine.run(group(100_000)).unwrap_err();
            assert!(matches!(&error, Error::Invalid(text) if text.contains("`group` of 100000 tensors")), "{error}");
            let named = engine.run(barrier(&"long ".repeat(100_000))).unwrap_err();
            assert!(matches!(&named, Error::Invalid(text) if text.len() < 300), "{named}");
            assert_eq!(engine.run(group(20_000)).unwrap().tensors.len(), 20_000);
        });
    }
}
