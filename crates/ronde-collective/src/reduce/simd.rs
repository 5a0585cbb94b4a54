//! The loops of `mod.rs`, compiled for each instruction set that can be found at run time.
//!
//! The loops are written without intrinsics, and the compiler makes vectors of them. On ARM vectors are always
//! there, so the plain version has them already.
#![expect(unsafe_code, reason = "calling code that is compiled for more than the least of processors")]

use super::{DataType, ReduceOp, accumulate_any, combine_any, scale_any};

#[cfg(target_arch = "x86_64")]
macro_rules! chosen {
    ($wide:ident, $wider:ident, $plain:ident, ($($argument:expr),*)) => {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has what the function is compiled for, by the check above.
            unsafe { $wider($($argument),*) }
        } else if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            unsafe { $wide($($argument),*) }
        } else {
            $plain($($argument),*)
        }
    };
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! chosen {
    ($wide:ident, $wider:ident, $plain:ident, ($($argument:expr),*)) => {
        $plain($($argument),*)
    };
}

/// `to = a op b`.
pub(crate) fn combine(dtype: DataType, op: ReduceOp, to: &mut [u8], a: &[u8], b: &[u8]) {
    chosen!(combine_avx2, combine_avx512, combine_any, (dtype, op, to, a, b));
}

/// `to = to op b`.
pub(crate) fn accumulate(dtype: DataType, op: ReduceOp, to: &mut [u8], b: &[u8]) {
    chosen!(accumulate_avx2, accumulate_avx512, accumulate_any, (dtype, op, to, b));
}

/// `to = to * factor`; nothing is done for a factor of one.
pub(crate) fn scale(dtype: DataType, to: &mut [u8], factor: f64) {
    #[expect(clippy::float_cmp, reason = "exactly one means that nobody asked for it")]
    if factor != 1.0 {
        chosen!(scale_avx2, scale_avx512, scale_any, (dtype, to, factor));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn combine_avx2(dtype: DataType, op: ReduceOp, to: &mut [u8], a: &[u8], b: &[u8]) {
    combine_any(dtype, op, to, a, b);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn combine_avx512(dtype: DataType, op: ReduceOp, to: &mut [u8], a: &[u8], b: &[u8]) {
    combine_any(dtype, op, to, a, b);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn accumulate_avx2(dtype: DataType, op: ReduceOp, to: &mut [u8], b: &[u8]) {
    accumulate_any(dtype, op, to, b);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn accumulate_avx512(dtype: DataType, op: ReduceOp, to: &mut [u8], b: &[u8]) {
    accumulate_any(dtype, op, to, b);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn scale_avx2(dtype: DataType, to: &mut [u8], factor: f64) {
    scale_any(dtype, to, factor);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn scale_avx512(dtype: DataType, to: &mut [u8], factor: f64) {
    scale_any(dtype, to, factor);
}
