//! Each operation once, on every transport.

use std::time::Duration;

use ronde_collective::{Operation, Rank, ReduceOp, Work};
use ronde_sim::wait_until;

use crate::fixture::{Spread, allreduce, barrier, f32s, floats, matrix, ring};

fn on_all(sizes: &[usize], body: impl Fn(usize, Spread)) {
    for spread in Spread::ALL {
        sizes.iter().for_each(|size| body(*size, spread));
    }
}

#[test]
fn a_sum_has_everybodys_part() {
    on_all(&[1, 2, 3, 5], |size, spread| {
        let sums = ring(size, spread, |engine| {
            let own = engine.rank().0 as f32;
            let mut all = Vec::new();
            for length in [1_usize, 5, 3000, 100_000] {
                for round in 0..3 {
                    let values: Vec<f32> = (0..length).map(|index| own + (index % 7) as f32).collect();
                    let done = engine.run(allreduce(&format!("x{length}"), ReduceOp::Sum, &values)).unwrap();
                    let sum = floats(&done, 0);
                    let ranks = (size * (size - 1) / 2) as f32;
                    let expected: Vec<f32> =
                        (0..length).map(|index| ranks + size as f32 * (index % 7) as f32).collect();
                    assert!(sum == expected, "{spread:?}, {size} ranks, {length} elements, round {round}");
                    all.push(sum[0]);
                }
            }
            all
        });
        assert!(sums.iter().all(|sum| *sum == sums[0]));
    });
}

#[test]
fn rows_are_gathered_in_the_order_of_ranks() {
    on_all(&[1, 2, 4], |size, spread| {
        let gathered = ring(size, spread, |engine| {
            let rank = engine.rank().0;
            let large = 20_000;
            let done =
                engine.run(Work::new("small", Operation::Allgather, vec![matrix(rank, 2, rank as f32)])).unwrap();
            let more = engine
                .run(Work::new("large", Operation::Allgather, vec![matrix(rank + 1, large, rank as f32)]))
                .unwrap();
            assert_eq!(more.tensors[0].shape.0, [size * (size + 1) / 2, large]);
            assert_eq!(floats(&more, 0).last(), Some(&((size - 1) as f32)));
            (done.tensors[0].shape.0.clone(), floats(&done, 0))
        });
        let expected: Vec<f32> = (0..size).flat_map(|rank| vec![rank as f32; 2 * rank]).collect();
        assert!(gathered.iter().all(|(shape, values)| shape == &[size * (size - 1) / 2, 2] && values == &expected));
    });
}

#[test]
fn a_broadcast_gives_the_roots_data() {
    on_all(&[1, 2, 5], |size, spread| {
        ring(size, spread, |engine| {
            for root in 0..size {
                for length in [1, 100_000] {
                    let work = Operation::Broadcast { root: Rank(root) };
                    let own = f32s(&vec![engine.rank().0 as f32; length]);
                    let done = engine.run(Work::new(format!("b{root}.{length}"), work, vec![own])).unwrap();
                    assert_eq!(floats(&done, 0), vec![root as f32; length], "{spread:?}");
                }
            }
        });
    });
}

#[test]
fn alltoall_gives_each_its_rows() {
    on_all(&[1, 2, 3], |size, spread| {
        ring(size, spread, |engine| {
            let rank = engine.rank().0;
            for columns in [1, 30_000] {
                // Rank r sends r + 1 rows to each.
                let splits = Some(vec![rank + 1; size]);
                let own = matrix((rank + 1) * size, columns, rank as f32);
                let work = Work::new(format!("a{columns}"), Operation::Alltoall { splits }, vec![own]);
                let done = engine.run(work).unwrap();
                let expected: Vec<f32> = (0..size).flat_map(|from| vec![from as f32; (from + 1) * columns]).collect();
                assert_eq!(floats(&done, 0), expected);
                assert_eq!(done.received_splits, (1..=size).collect::<Vec<_>>());
            }
        });
    });
}

#[test]
fn a_reducescatter_gives_each_its_rows_of_the_sum() {
    on_all(&[1, 2, 3], |size, spread| {
        ring(size, spread, |engine| {
            for columns in [1, 50_000] {
                let own = matrix(size + 1, columns, 2.0);
                let work = Operation::Reducescatter(ReduceOp::Sum.into());
                let done = engine.run(Work::new(format!("r{columns}"), work, vec![own])).unwrap();
                let rows = if engine.rank().0 == 0 { 2 } else { 1 };
                assert_eq!(done.tensors[0].shape.0, [rows, columns], "{spread:?}");
                assert_eq!(floats(&done, 0), vec![2.0 * size as f32; rows * columns]);
            }
        });
    });
}

#[test]
fn a_barrier_lets_nobody_through_before_all_have_come() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    on_all(&[1, 4], |size, spread| {
        let come = AtomicUsize::new(0);
        ring(size, spread, |engine| {
            for round in 1..=10 {
                come.fetch_add(1, Ordering::SeqCst);
                engine.run(barrier("b")).unwrap();
                assert!(come.load(Ordering::SeqCst) >= round * size);
            }
        });
    });
}

/// Python waits in slices, to hear Ctrl-C; over TCP nobody drove what it waited for.
#[test]
fn who_waits_in_slices_does_the_work_over_every_transport() {
    for spread in Spread::ALL {
        ring(3, spread, |engine| {
            for turn in 0..20 {
                // Slices are shorter than what a rank may be late by: rounds are left and taken up again.
                let late = if engine.rank() == Rank(turn % 5) { 5 } else { 0 };
                std::thread::sleep(Duration::from_millis(late));
                let handle = engine.begin(allreduce("x", ReduceOp::Sum, &[1.0; 1000])).unwrap();
                let slice = || handle.wait(Some(Duration::from_millis(1)));
                let done = wait_until("the sum", Duration::from_secs(120), slice).unwrap();
                assert_eq!(floats(&done, 0), [3.0; 1000], "{spread:?}");
            }
        });
    }
}
