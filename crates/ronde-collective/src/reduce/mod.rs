//! Arithmetic on bytes: combining, scaling and filling of elements of any type.
//!
//! Callers give slices of whole elements, aligned or not. The loops are plain; `simd.rs` compiles them once for each
//! instruction set and chooses at run time. Everything here is pure.

#![expect(clippy::inline_always, reason = "the loops are compiled for several instruction sets")]

mod element;
mod simd;
#[cfg(test)]
mod tests;

use self::element::{Brain, Element, Half, Truth};
use crate::types::{DataType, ReduceOp};

pub(crate) use self::simd::{accumulate, combine, scale};

/// Calls a generic function for the element of a type.
macro_rules! for_lane {
    ($dtype:expr, $function:ident($($argument:expr),*)) => {
        match $dtype {
            DataType::U8 => $function::<u8>($($argument),*),
            DataType::I8 => $function::<i8>($($argument),*),
            DataType::U16 => $function::<u16>($($argument),*),
            DataType::I16 => $function::<i16>($($argument),*),
            DataType::I32 => $function::<i32>($($argument),*),
            DataType::I64 => $function::<i64>($($argument),*),
            DataType::F16 => $function::<Half>($($argument),*),
            DataType::BF16 => $function::<Brain>($($argument),*),
            DataType::F32 => $function::<f32>($($argument),*),
            DataType::F64 => $function::<f64>($($argument),*),
            DataType::Bool => $function::<Truth>($($argument),*),
        }
    };
}

/// `to = a op b`.
#[inline(always)]
fn combine_any(dtype: DataType, op: ReduceOp, to: &mut [u8], a: &[u8], b: &[u8]) {
    for_lane!(dtype, combine_elements(op, to, a, b));
}

/// `to = to op b`.
#[inline(always)]
fn accumulate_any(dtype: DataType, op: ReduceOp, to: &mut [u8], b: &[u8]) {
    for_lane!(dtype, accumulate_elements(op, to, b));
}

/// `to = to * factor`.
#[inline(always)]
fn scale_any(dtype: DataType, to: &mut [u8], factor: f64) {
    for_lane!(dtype, scale_elements(to, factor));
}

#[inline(always)]
fn combine_elements<T: Element>(op: ReduceOp, to: &mut [u8], a: &[u8], b: &[u8]) {
    match op {
        ReduceOp::Sum | ReduceOp::Average | ReduceOp::Adasum => each_of_two::<T>(to, a, b, T::sum),
        ReduceOp::Product => each_of_two::<T>(to, a, b, T::product),
        ReduceOp::Min => each_of_two::<T>(to, a, b, T::min),
        ReduceOp::Max => each_of_two::<T>(to, a, b, T::max),
    }
}

#[inline(always)]
fn accumulate_elements<T: Element>(op: ReduceOp, to: &mut [u8], b: &[u8]) {
    match op {
        ReduceOp::Sum | ReduceOp::Average | ReduceOp::Adasum => each_onto::<T>(to, b, T::sum),
        ReduceOp::Product => each_onto::<T>(to, b, T::product),
        ReduceOp::Min => each_onto::<T>(to, b, T::min),
        ReduceOp::Max => each_onto::<T>(to, b, T::max),
    }
}

#[inline(always)]
fn each_of_two<T: Element>(to: &mut [u8], a: &[u8], b: &[u8], join: impl Fn(T, T) -> T) {
    for ((to, a), b) in T::chunks_mut(to).iter_mut().zip(T::chunks(a)).zip(T::chunks(b)) {
        *to = join(T::load(*a), T::load(*b)).store();
    }
}

#[inline(always)]
fn each_onto<T: Element>(to: &mut [u8], b: &[u8], join: impl Fn(T, T) -> T) {
    for (to, b) in T::chunks_mut(to).iter_mut().zip(T::chunks(b)) {
        *to = join(T::load(*to), T::load(*b)).store();
    }
}

#[inline(always)]
fn scale_elements<T: Element>(to: &mut [u8], factor: f64) {
    for to in T::chunks_mut(to) {
        *to = T::load(*to).scale(factor).store();
    }
}

/// Fills with what changes nothing: the value that a rank without data brings.
pub(crate) fn fill_neutral(dtype: DataType, op: ReduceOp, to: &mut [u8]) {
    let value = neutral(dtype, op);
    for chunk in to.chunks_exact_mut(dtype.size()) {
        chunk.copy_from_slice(&value[..dtype.size()]);
    }
}

fn neutral(dtype: DataType, op: ReduceOp) -> [u8; 8] {
    fn bytes<const N: usize>(value: [u8; N]) -> [u8; 8] {
        let mut all = [0; 8];
        all[..N].copy_from_slice(&value);
        all
    }
    macro_rules! of {
        ($type:ty, $lowest:expr, $highest:expr, $one:expr) => {
            match op {
                ReduceOp::Sum | ReduceOp::Average | ReduceOp::Adasum => [0; 8],
                ReduceOp::Product => bytes(<$type>::to_ne_bytes($one)),
                ReduceOp::Min => bytes(<$type>::to_ne_bytes($highest)),
                ReduceOp::Max => bytes(<$type>::to_ne_bytes($lowest)),
            }
        };
    }
    match dtype {
        DataType::U8 => of!(u8, 0, u8::MAX, 1),
        DataType::I8 => of!(i8, i8::MIN, i8::MAX, 1),
        DataType::U16 => of!(u16, 0, u16::MAX, 1),
        DataType::I16 => of!(i16, i16::MIN, i16::MAX, 1),
        DataType::I32 => of!(i32, i32::MIN, i32::MAX, 1),
        DataType::I64 => of!(i64, i64::MIN, i64::MAX, 1),
        DataType::F16 => of!(u16, 0xfc00, 0x7c00, 0x3c00),
        DataType::BF16 => of!(u16, 0xff80, 0x7f80, 0x3f80),
        DataType::F32 => of!(f32, f32::NEG_INFINITY, f32::INFINITY, 1.0),
        DataType::F64 => of!(f64, f64::NEG_INFINITY, f64::INFINITY, 1.0),
        DataType::Bool => of!(u8, 0, 1, 1),
    }
}

/// Returns the elements of a float type as double precision: what dot products are made of.
pub(crate) fn to_f64(dtype: DataType, from: &[u8]) -> Vec<f64> {
    match dtype {
        DataType::F16 => {
            Half::chunks(from).iter().map(|b| f64::from(element::half_to_f32(u16::from_ne_bytes(*b)))).collect()
        }
        DataType::BF16 => {
            Brain::chunks(from).iter().map(|b| f64::from(element::brain_to_f32(u16::from_ne_bytes(*b)))).collect()
        }
        DataType::F32 => f32::chunks(from).iter().map(|b| f64::from(f32::load(*b))).collect(),
        _ => f64::chunks(from).iter().map(|b| f64::load(*b)).collect(),
    }
}

/// Stores double precision as elements of a float type.
#[expect(clippy::cast_possible_truncation, reason = "the element type is what the caller has")]
pub(crate) fn from_f64(dtype: DataType, values: &[f64], to: &mut [u8]) {
    for (to, value) in to.chunks_exact_mut(dtype.size()).zip(values) {
        match dtype {
            DataType::F16 => to.copy_from_slice(&element::half_from_f32(*value as f32).to_ne_bytes()),
            DataType::BF16 => to.copy_from_slice(&element::brain_from_f32(*value as f32).to_ne_bytes()),
            DataType::F32 => to.copy_from_slice(&(*value as f32).to_ne_bytes()),
            _ => to.copy_from_slice(&value.to_ne_bytes()),
        }
    }
}
