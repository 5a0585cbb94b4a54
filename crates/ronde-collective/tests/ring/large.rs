//! More than 2^31 elements, and addresses of the other family.

use ronde_collective::{DataType, Operation, Rank, ReduceOp, Tensor, Work};

use crate::fixture::{Spread, allreduce, floats, ring, ring_with};

/// Just above what 32 bits with a sign can count, and odd.
const MANY: usize = (1 << 31) + 12_345;

#[test]
#[ignore = "takes 9 GB of memory and most of a minute: make test-large"]
fn more_than_two_to_the_31_elements() {
    for spread in [Spread::OneHost, Spread::Tcp] {
        ring(2, spread, |engine| {
            let own = u8::try_from(engine.rank().0 + 1).unwrap();
            let tensor = Tensor::new(DataType::U8, [MANY], vec![own; MANY]);
            let work = Work::new("sum", Operation::Allreduce(ReduceOp::Sum.into()), vec![tensor]);
            let mut done = engine.run(work).unwrap();
            let sum = done.tensors.pop().unwrap();
            assert!(sum.buffer.as_slice().iter().all(|value| *value == 3), "{spread:?}");
            let mut bytes = vec![0; MANY];
            if engine.rank() == Rank(1) {
                bytes[MANY - 1] = 7;
            }
            let tensor = Tensor::new(DataType::U8, [MANY], bytes);
            let done = engine.run(Work::new("root", Operation::Broadcast { root: Rank(1) }, vec![tensor])).unwrap();
            assert_eq!(done.tensors[0].buffer.as_slice()[MANY - 1], 7, "{spread:?}");
        });
    }
}

#[test]
fn ranks_find_each_other_by_ipv6_alone() {
    let only = |config: &mut ronde_collective::Config| config.addresses = vec!["::1".parse().unwrap()];
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return ronde_sim::skip("no IPv6 on loopback");
    }
    ring_with(3, Spread::Tcp, only, |engine| {
        let done = engine.run(allreduce("x", ReduceOp::Sum, &vec![1.0; 100_000])).unwrap();
        assert!(floats(&done, 0) == vec![3.0; 100_000]);
    });
}
