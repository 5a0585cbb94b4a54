//! Process sets: made and removed by all, used by their members.

use std::time::Duration;

use ronde_collective::{Error, Rank, ReduceOp, SetId};

use crate::fixture::{Spread, allreduce, barrier, floats, ring};

#[test]
fn members_work_while_others_do_something_else() {
    for spread in [Spread::OneHost, Spread::Tcp, Spread::Hosts(2)] {
        ring(3, spread, |engine| {
            let pair = engine.add_process_set(&[Rank(2), Rank(1)]).unwrap();
            assert_eq!(pair, SetId(1));
            assert_eq!(engine.process_sets()[&pair], [Rank(1), Rank(2)]);
            let work = allreduce("x", ReduceOp::Sum, &[engine.rank().0 as f32; 2000]).on(pair);
            match engine.rank().0 {
                0 => {
                    let error = engine.run(work).unwrap_err();
                    let expected = "Allreduce: Rank 0 is not a member of the provided process set.";
                    assert_eq!(error, Error::Invalid(expected.to_owned()));
                }
                _ => assert_eq!(floats(&engine.run(work).unwrap(), 0), [3.0; 2000]),
            }
            engine.run(barrier("b")).unwrap();
            engine.remove_process_set(pair).unwrap();
            let error = engine.run(barrier("c").on(pair)).unwrap_err();
            assert!(error.to_string().contains("does not exist"), "{error}");
            assert_eq!(engine.add_process_set(&[Rank(0)]).unwrap(), pair, "a number is used again");
        });
    }
}

#[test]
fn the_same_set_twice_is_refused_on_all_ranks() {
    ring(2, Spread::OneHost, |engine| {
        engine.add_process_set(&[Rank(0)]).unwrap();
        for ranks in [&[Rank(0)][..], &[Rank(0), Rank(1)]] {
            let error = engine.add_process_set(ranks).unwrap_err();
            assert!(error.to_string().contains("exists already"), "{error}");
        }
        let error = engine.add_process_set(&[engine.rank()]).unwrap_err();
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        engine.run(barrier("still there")).unwrap();
    });
}

#[test]
fn sets_that_overlap_do_not_wait_for_each_other() {
    // Each rank's operations are in an order that would lock all three if one thread did them in turn.
    ring(3, Spread::OneHost, |engine| {
        let sets: Vec<SetId> =
            [[0, 1], [1, 2], [2, 0]].iter().map(|pair| engine.add_process_set(&pair.map(Rank)).unwrap()).collect();
        let rank = engine.rank().0;
        let own = [sets[rank], sets[(rank + 2) % 3]];
        for _ in 0..20 {
            let handles =
                own.map(|set| engine.submit(allreduce("x", ReduceOp::Sum, &vec![1.0; 40_000]).on(set)).unwrap());
            for handle in handles {
                let done = handle.wait(Some(Duration::from_secs(120))).expect("locked").unwrap();
                assert_eq!(floats(&done, 0), vec![2.0; 40_000]);
            }
        }
    });
}
