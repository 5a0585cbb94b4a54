//! Every operation and type, odd sizes, one to nine ranks, every transport: against the plainest reference.

use proptest::prelude::*;
use ronde_collective::{DataType, Engine, Operation, Rank, ReduceOp, Shape, Tensor, Work};

use crate::fixture::{Spread, ring};

/// Whole numbers so small that every type holds all sums, products of nine ones and twos included.
fn bytes_of(dtype: DataType, values: &[u8]) -> Vec<u8> {
    let one = |value: u8| -> Vec<u8> {
        match dtype {
            DataType::U8 | DataType::I8 => vec![value],
            DataType::Bool => vec![u8::from(value > 0)],
            DataType::U16 => u16::from(value).to_ne_bytes().to_vec(),
            DataType::I16 => i16::from(value).to_ne_bytes().to_vec(),
            DataType::I32 => i32::from(value).to_ne_bytes().to_vec(),
            DataType::I64 => i64::from(value).to_ne_bytes().to_vec(),
            DataType::F32 => f32::from(value).to_ne_bytes().to_vec(),
            DataType::F64 => f64::from(value).to_ne_bytes().to_vec(),
            // The upper half of the float; such small numbers need no more.
            DataType::BF16 => ((f32::from(value).to_bits() >> 16) as u16).to_ne_bytes().to_vec(),
            DataType::F16 => half(value).to_ne_bytes().to_vec(),
        }
    };
    values.iter().flat_map(|value| one(*value)).collect()
}

/// Sign, five bits of exponent and ten of fraction of a whole number.
fn half(value: u8) -> u16 {
    let Some(exponent) = value.checked_ilog2() else { return 0 };
    let fraction = (u16::from(value) << (10 - exponent)) & 0x3ff;
    ((u16::try_from(exponent).unwrap() + 15) << 10) | fraction
}

fn value(rank: usize, index: usize) -> u8 {
    // Ones and twos: the product of nine is below 128 when few are twos.
    u8::from((rank + index).is_multiple_of(4)) + 1
}

fn reduced(op: ReduceOp, dtype: DataType, size: usize, index: usize) -> u8 {
    let all = (0..size).map(|rank| value(rank, index));
    match op {
        ReduceOp::Min => all.min().unwrap(),
        ReduceOp::Max => all.max().unwrap(),
        ReduceOp::Product => all.product(),
        _ if dtype == DataType::Bool => 1,
        _ => all.sum(),
    }
}

fn tensor(dtype: DataType, shape: &Shape, rank: usize) -> Tensor {
    let values: Vec<u8> = (0..shape.elements().unwrap()).map(|index| value(rank, index)).collect();
    Tensor { dtype, shape: shape.clone(), input: bytes_of(dtype, &values).into(), output: None }
}

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Product];

#[derive(Debug, Clone)]
struct Case {
    size: usize,
    spread: Spread,
    dtype: DataType,
    op: ReduceOp,
    rows: usize,
    columns: usize,
    /// From the second time on everybody knows the names.
    times: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    let columns = prop_oneof![Just(0_usize), 1_usize..5, 1000_usize..3000, Just(9001)];
    (
        1_usize..=9,
        prop::sample::select(Spread::ALL.to_vec()),
        prop::sample::select(DataType::ALL.to_vec()),
        prop::sample::select(OPS.to_vec()),
        0_usize..20,
        columns,
    )
        .prop_map(|(size, spread, dtype, op, rows, columns)| Case {
            size,
            spread,
            dtype,
            op,
            rows,
            columns,
            times: 2,
        })
}

fn check(case: &Case) {
    ring(case.size, case.spread, |engine| {
        check_reduction(engine, case);
        check_moves(engine, case);
    });
}

/// Runs an operation; if more than once, then all results must be the same.
fn run(engine: &Engine, case: &Case, (name, operation): (&str, Operation), tensor: Tensor) -> (Shape, Vec<u8>) {
    let name = format!("{name} {:?} of {:?}", case.op, case.dtype);
    let once = || {
        let input = Tensor::new(tensor.dtype, tensor.shape.clone(), tensor.input.as_slice().to_vec());
        let done = engine.run(Work::new(name.as_str(), operation.clone(), vec![input])).unwrap();
        (done.tensors[0].shape.clone(), done.tensors[0].buffer.as_slice().to_vec())
    };
    let first = once();
    assert!((1..case.times).all(|_| once() == first), "it differs the next time: {case:?}");
    first
}

fn check_reduction(engine: &Engine, case: &Case) {
    let Case { size, dtype, op, rows, columns, .. } = *case;
    let (rank, shape) = (engine.rank().0, Shape::from([rows, columns]));
    let all: Vec<u8> = (0..rows * columns).map(|index| reduced(op, dtype, size, index)).collect();
    let (_, sum) = run(engine, case, ("allreduce", Operation::Allreduce(op.into())), tensor(dtype, &shape, rank));
    assert!(sum == bytes_of(dtype, &all), "allreduce, {case:?}");

    if op == ReduceOp::Sum {
        let scatter = ("reducescatter", Operation::Reducescatter(op.into()));
        let (_, bytes) = run(engine, case, scatter, tensor(dtype, &shape, rank));
        let begin = (rows / size * rank + rank.min(rows % size)) * columns;
        let end = begin + (rows / size + usize::from(rank < rows % size)) * columns;
        assert!(bytes == bytes_of(dtype, &all[begin..end]), "reducescatter, {case:?}");
    }
}

fn check_moves(engine: &Engine, case: &Case) {
    let Case { size, dtype, rows, columns, .. } = *case;
    let (rank, shape) = (engine.rank().0, Shape::from([rows, columns]));
    let own = tensor(dtype, &Shape::from([rows + rank, columns]), rank);
    let (gathered, bytes) = run(engine, case, ("allgather", Operation::Allgather), own);
    let values = (0..size).flat_map(|rank| (0..(rows + rank) * columns).map(move |index| value(rank, index)));
    assert!(bytes == bytes_of(dtype, &values.collect::<Vec<u8>>()), "allgather, {case:?}");
    assert_eq!(gathered.0, [size * rows + size * (size - 1) / 2, columns]);

    let root = size - 1;
    let broadcast = ("broadcast", Operation::Broadcast { root: Rank(root) });
    let (_, bytes) = run(engine, case, broadcast, tensor(dtype, &shape, rank));
    assert!(bytes == tensor(dtype, &shape, root).input.as_slice(), "broadcast, {case:?}");

    let splits: Vec<usize> = (0..size).map(|to| (rows + rank + to) % 3).collect();
    let sent = Shape::from([splits.iter().sum(), columns]);
    let alltoall = ("alltoall", Operation::Alltoall { splits: Some(splits) });
    let (_, bytes) = run(engine, case, alltoall, tensor(dtype, &sent, rank));
    let from_each = (0..size).flat_map(|from| {
        let begin: usize = (0..rank).map(|to| (rows + from + to) % 3).sum();
        (begin * columns..(begin + (rows + from + rank) % 3) * columns).map(move |index| value(from, index))
    });
    assert!(bytes == bytes_of(dtype, &from_each.collect::<Vec<u8>>()), "alltoall, {case:?}");
}

/// What is said in rounds, nothing at all, one row, and what goes through the algorithms.
const SHAPES: [(usize, usize); 4] = [(3, 7), (5, 0), (1, 1031), (3, 3001)];

#[test]
fn every_transport_number_of_ranks_type_and_operation_is_right() {
    for spread in Spread::ALL {
        for size in 1..=9 {
            ring(size, spread, |engine| {
                for (number, dtype) in DataType::ALL.into_iter().enumerate() {
                    let (rows, columns) = SHAPES[(number + size) % SHAPES.len()];
                    let case = |op| Case { size, spread, dtype, op, rows, columns, times: 1 };
                    OPS.into_iter().for_each(|op| check_reduction(engine, &case(op)));
                    check_moves(engine, &case(ReduceOp::Sum));
                }
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_is_what_the_reference_says(case in cases()) {
        check(&case);
    }
}

#[test]
fn adasum_is_a_sum_for_orthogonal_and_an_average_for_equal_vectors() {
    for (size, spread) in [(2, Spread::OneHost), (3, Spread::Tcp), (4, Spread::OneHost), (5, Spread::Hosts(2))] {
        ring(size, spread, |engine| {
            let rank = engine.rank().0;
            let adasum = |name: &str, values: &[f64]| -> Vec<f64> {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
                let tensor = Tensor::new(DataType::F64, [values.len()], bytes);
                let work = Work::new(name, Operation::Allreduce(ReduceOp::Adasum.into()), vec![tensor]);
                let done = engine.run(work).unwrap();
                done.tensors[0].buffer.as_slice().as_chunks().0.iter().map(|it| f64::from_ne_bytes(*it)).collect()
            };
            let unit: Vec<f64> = (0..7).map(|index| f64::from(u8::from(index == rank))).collect();
            let expected: Vec<f64> = (0..7).map(|index| f64::from(u8::from(index < size))).collect();
            assert_eq!(adasum("orthogonal", &unit), expected);
            assert_eq!(adasum("equal", &[1.0, 2.0, 4.0]), [1.0, 2.0, 4.0]);
        });
    }
}

/// The formula itself, for two vectors.
fn adasum_of(a: &[f64], b: &[f64]) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (of_a, of_b) = (1.0 - dot(a, b) / (2.0 * dot(a, a)), 1.0 - dot(a, b) / (2.0 * dot(b, b)));
    a.iter().zip(b).map(|(a, b)| a * of_a + b * of_b).collect()
}

fn decoded(dtype: DataType, bytes: &[u8]) -> Vec<f64> {
    let half = |bits: u16| {
        // Sign, exponent and fraction; what is below the smallest normal number does not occur here.
        let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
        let size = if exponent == 0 { 0.0 } else { (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15) };
        if bits >> 15 == 1 { -size } else { size }
    };
    let halves = || bytes.as_chunks().0.iter().map(|it| u16::from_ne_bytes(*it));
    match dtype {
        DataType::F16 => halves().map(half).collect(),
        DataType::BF16 => halves().map(|bits| f64::from(f32::from_bits(u32::from(bits) << 16))).collect(),
        _ => bytes.as_chunks().0.iter().map(|it| f64::from(f32::from_ne_bytes(*it))).collect(),
    }
}

#[test]
fn adasum_is_what_its_formula_says_in_every_float() {
    // Half of the distance between two numbers, and a little for the order of sums.
    for (dtype, precision) in [(DataType::F32, 2e-7), (DataType::F16, 5.1e-4), (DataType::BF16, 4.1e-3)] {
        for (size, spread) in [(2, Spread::OneHost), (4, Spread::Tcp), (3, Spread::Hosts(2)), (5, Spread::OneHost)] {
            for length in [5_usize, 1031] {
                let own = |rank: usize| -> Vec<u8> {
                    (0..length).map(|index| u8::try_from((rank * 7 + index * (rank + 3) + 1) % 11).unwrap()).collect()
                };
                let mut vectors: Vec<Vec<f64>> =
                    (0..size).map(|rank| own(rank).into_iter().map(f64::from).collect()).collect();
                while vectors.len() > 1 {
                    let join = |pair: &[Vec<f64>]| if let [a, b] = pair { adasum_of(a, b) } else { pair[0].clone() };
                    vectors = vectors.chunks(2).map(join).collect();
                }
                let results = ring(size, spread, |engine| {
                    let tensor = Tensor::new(dtype, [length], bytes_of(dtype, &own(engine.rank().0)));
                    let work = Work::new("x", Operation::Allreduce(ReduceOp::Adasum.into()), vec![tensor]);
                    engine.run(work).unwrap().tensors[0].buffer.as_slice().to_vec()
                });
                assert!(
                    results.iter().all(|result| *result == results[0]),
                    "ranks differ: {dtype}, {size}, {spread:?}"
                );
                for (found, expected) in decoded(dtype, &results[0]).iter().zip(&vectors[0]) {
                    let error = (found - expected).abs();
                    assert!(
                        error <= precision * expected.abs() + 1e-4 * precision,
                        "{found} for {expected}: {dtype}, {size}"
                    );
                }
            }
        }
    }
}

#[test]
fn averages_and_factors_are_folded_as_users_know_it() {
    use ronde_collective::Reduction;
    for (length, spread) in [(3, Spread::OneHost), (50_000, Spread::OneHost), (3, Spread::Tcp), (50_000, Spread::Tcp)] {
        ring(3, spread, |engine| {
            let reduction = Reduction { op: ReduceOp::Average, prescale: 0.5, postscale: 3.0 };
            let bytes: Vec<u8> = (0..length).flat_map(|_| 7_i32.to_ne_bytes()).collect();
            let tensor = Tensor::new(DataType::I32, [length], bytes);
            let done = engine.run(Work::new("i", Operation::Allreduce(reduction), vec![tensor])).unwrap();
            // 7 / 2 is 3 for integers; three of them times 3 / 3 is 9.
            let values = done.tensors[0].buffer.as_slice().as_chunks().0.iter().map(|it| i32::from_ne_bytes(*it));
            assert!(values.clone().all(|value| value == 9), "{spread:?}: {:?}", values.take(3).collect::<Vec<i32>>());
        });
    }
}
