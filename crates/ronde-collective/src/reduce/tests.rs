use proptest::prelude::*;

use super::{
    DataType, ReduceOp, accumulate, combine,
    element::{brain_from_f32, brain_to_f32, half_from_f32, half_to_f32},
    fill_neutral, from_f64, scale, to_f64,
};

#[test]
fn every_half_survives_the_way_through_f32() {
    for bits in 0..=u16::MAX {
        let value = half_to_f32(bits);
        let back = half_from_f32(value);
        assert!(back == bits || (value.is_nan() && half_to_f32(back).is_nan()), "{bits:#06x} became {back:#06x}");
        let value = brain_to_f32(bits);
        let back = brain_from_f32(value);
        assert!(back == bits || (value.is_nan() && brain_to_f32(back).is_nan()), "{bits:#06x} became {back:#06x}");
    }
}

#[test]
fn halves_round_to_the_nearest_and_ties_to_even() {
    let rows: [(&str, f32, u16); 12] = [
        ("one", 1.0, 0x3c00),
        ("minus two", -2.0, 0xc000),
        ("a tie goes down to even", 1.0 + 1.0 / 2048.0, 0x3c00),
        ("a tie goes up to even", 1.0 + 3.0 / 2048.0, 0x3c02),
        ("the largest", 65504.0, 0x7bff),
        ("just below the limit stays finite", 65519.99, 0x7bff),
        ("the limit is infinity", 65520.0, 0x7c00),
        ("infinity", f32::INFINITY, 0x7c00),
        ("the smallest subnormal", 5.960_464_5e-8, 0x0001),
        ("half of it is a tie to zero", 2.980_232_2e-8, 0x0000),
        ("rounding makes a subnormal normal", 6.103_5e-5, 0x0400),
        ("minus zero", -0.0, 0x8000),
    ];
    for (what, value, expected) in rows {
        assert_eq!(half_from_f32(value), expected, "{what}");
    }
    assert_eq!(brain_from_f32(1.0 + 1.0 / 256.0), 0x3f80, "a tie goes to even in bfloat16 too");
    assert_eq!(brain_from_f32(1.0 + 3.0 / 256.0), 0x3f82);
}

/// Elements that are exact in every type, so that a simple sum is the truth.
fn bytes_of(dtype: DataType, values: &[i8]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * dtype.size()];
    for (to, value) in bytes.chunks_exact_mut(dtype.size()).zip(values) {
        match dtype {
            DataType::U8 => to.copy_from_slice(&value.unsigned_abs().to_ne_bytes()),
            DataType::I8 => to.copy_from_slice(&value.to_ne_bytes()),
            DataType::U16 => to.copy_from_slice(&u16::from(value.unsigned_abs()).to_ne_bytes()),
            DataType::I16 => to.copy_from_slice(&i16::from(*value).to_ne_bytes()),
            DataType::I32 => to.copy_from_slice(&i32::from(*value).to_ne_bytes()),
            DataType::I64 => to.copy_from_slice(&i64::from(*value).to_ne_bytes()),
            DataType::Bool => to[0] = u8::from(*value > 0),
            _ => from_f64(dtype, &[f64::from(*value)], to),
        }
    }
    bytes
}

fn simple(dtype: DataType, op: ReduceOp, a: i8, b: i8) -> Vec<u8> {
    let [x, y] = match dtype {
        DataType::U8 | DataType::U16 => [i16::from(a.unsigned_abs()), i16::from(b.unsigned_abs())],
        DataType::Bool => [i16::from(a > 0), i16::from(b > 0)],
        _ => [i16::from(a), i16::from(b)],
    };
    let value = match op {
        ReduceOp::Product => x * y,
        ReduceOp::Min => x.min(y),
        ReduceOp::Max => x.max(y),
        _ if dtype == DataType::Bool => x.max(y),
        _ => x + y,
    };
    let value = i8::try_from(value).expect("small numbers stay small");
    bytes_of(dtype, &[value])
}

/// Not zero: its product with a negative number is another zero in floats than in integers.
fn small() -> impl Strategy<Value = i8> {
    (-8_i8..8).prop_map(|value| if value == 0 { 8 } else { value })
}

proptest! {
    #[test]
    fn combining_is_what_it_is_for_single_elements(
        pairs in prop::collection::vec((small(), small()), 0..70),
        dtype in prop::sample::select(DataType::ALL.to_vec()),
        op in prop::sample::select(vec![ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Product]),
    ) {
        let (left, right): (Vec<i8>, Vec<i8>) = pairs.iter().copied().unzip();
        let (a, b) = (bytes_of(dtype, &left), bytes_of(dtype, &right));
        let expected: Vec<u8> = pairs.iter().flat_map(|(a, b)| simple(dtype, op, *a, *b)).collect();
        let mut to = vec![0xee; a.len()];
        combine(dtype, op, &mut to, &a, &b);
        prop_assert_eq!(&to, &expected);
        let mut to = a.clone();
        accumulate(dtype, op, &mut to, &b);
        prop_assert_eq!(&to, &expected);

        let mut to = vec![0; a.len()];
        fill_neutral(dtype, op, &mut to);
        accumulate(dtype, op, &mut to, &a);
        prop_assert_eq!(&to, &a, "the neutral element changes something");
    }
}

#[test]
fn scaling_has_the_arithmetic_of_horovod() {
    let scaled = |dtype, from: &[u8], factor| {
        let mut to = from.to_vec();
        scale(dtype, &mut to, factor);
        to
    };
    assert_eq!(scaled(DataType::I32, &7_i32.to_ne_bytes(), 0.5), 3_i32.to_ne_bytes(), "integers are truncated");
    assert_eq!(scaled(DataType::I32, &(-7_i32).to_ne_bytes(), 0.5), (-3_i32).to_ne_bytes(), "towards zero");
    assert_eq!(scaled(DataType::F32, &3_f32.to_ne_bytes(), 0.1), (3_f32 * 0.1_f32).to_ne_bytes(), "the factor is f32");
    assert_eq!(scaled(DataType::F64, &3_f64.to_ne_bytes(), 0.1), (3_f64 * 0.1).to_ne_bytes());
    assert_eq!(scaled(DataType::F16, &0x3c01_u16.to_ne_bytes(), 0.5), 0x3801_u16.to_ne_bytes());
    assert_eq!(to_f64(DataType::BF16, &scaled(DataType::BF16, &0x4040_u16.to_ne_bytes(), 2.0)), [6.0]);
}
