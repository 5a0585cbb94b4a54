//! One element in memory and as a value to compute with.
//!
//! Half floats are computed as `f32`. All conversions are without branches, so that the compiler turns loops over
//! them into vector code; nothing here needs aligned memory.

#![expect(clippy::inline_always, reason = "the loops around these are compiled for several instruction sets")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "conversions are the point here, and one text serves all widths"
)]

/// An element type as it lies in memory.
pub(super) trait Element: Copy {
    type Bytes: Copy;

    fn chunks(bytes: &[u8]) -> &[Self::Bytes];
    fn chunks_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    fn load(bytes: Self::Bytes) -> Self;
    fn store(self) -> Self::Bytes;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn scale(self, factor: f64) -> Self;
}

macro_rules! bytes_of {
    ($size:literal) => {
        type Bytes = [u8; $size];

        #[inline(always)]
        fn chunks(bytes: &[u8]) -> &[Self::Bytes] {
            bytes.as_chunks().0
        }

        #[inline(always)]
        fn chunks_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
            bytes.as_chunks_mut().0
        }
    };
}

macro_rules! ordered {
    () => {
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            if other < self { other } else { self }
        }

        #[inline(always)]
        fn max(self, other: Self) -> Self {
            if other > self { other } else { self }
        }
    };
}

macro_rules! integer {
    ($type:ty, $size:literal) => {
        impl Element for $type {
            bytes_of!($size);
            ordered!();

            #[inline(always)]
            fn load(bytes: Self::Bytes) -> Self {
                Self::from_ne_bytes(bytes)
            }

            #[inline(always)]
            fn store(self) -> Self::Bytes {
                self.to_ne_bytes()
            }

            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            /// In double precision, then truncated as C does it.
            #[inline(always)]
            fn scale(self, factor: f64) -> Self {
                (self as f64 * factor) as Self
            }
        }
    };
}

integer!(u8, 1);
integer!(i8, 1);
integer!(u16, 2);
integer!(i16, 2);
integer!(i32, 4);
integer!(i64, 8);

macro_rules! float {
    ($type:ty, $size:literal, $load:expr, $store:expr, $scale:ty) => {
        impl Element for $type {
            bytes_of!($size);
            ordered!();

            #[inline(always)]
            fn load(bytes: Self::Bytes) -> Self {
                $load(bytes)
            }

            #[inline(always)]
            fn store(self) -> Self::Bytes {
                $store(self)
            }

            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                Self::from(self.value() + other.value())
            }

            #[inline(always)]
            fn product(self, other: Self) -> Self {
                Self::from(self.value() * other.value())
            }

            /// The factor takes the type that is computed in.
            #[inline(always)]
            fn scale(self, factor: f64) -> Self {
                Self::from(self.value() * factor as $scale)
            }
        }
    };
}

/// The number that an element stands for.
trait Value {
    type Of;
    fn value(self) -> Self::Of;
}

macro_rules! value {
    ($type:ty, $of:ty, $get:expr) => {
        impl Value for $type {
            type Of = $of;

            #[inline(always)]
            fn value(self) -> $of {
                $get(self)
            }
        }
    };
}

/// A 16-bit float of IEEE 754, widened.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Half(f32);

/// The upper half of a 32-bit float, widened.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Brain(f32);

impl From<f32> for Half {
    #[inline(always)]
    fn from(value: f32) -> Self {
        Self(value)
    }
}

impl From<f32> for Brain {
    #[inline(always)]
    fn from(value: f32) -> Self {
        Self(value)
    }
}

value!(f32, f32, |it: f32| it);
value!(f64, f64, |it: f64| it);
value!(Half, f32, |it: Half| it.0);
value!(Brain, f32, |it: Brain| it.0);

float!(f32, 4, f32::from_ne_bytes, f32::to_ne_bytes, f32);
float!(f64, 8, f64::from_ne_bytes, f64::to_ne_bytes, f64);
float!(Half, 2, |b| Half(half_to_f32(u16::from_ne_bytes(b))), |h: Half| half_from_f32(h.0).to_ne_bytes(), f32);
float!(Brain, 2, |b| Brain(brain_to_f32(u16::from_ne_bytes(b))), |h: Brain| brain_from_f32(h.0).to_ne_bytes(), f32);

/// Zero is false, everything else is true: a sum is "or", a product is "and".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Truth(u8);

impl Element for Truth {
    bytes_of!(1);
    ordered!();

    #[inline(always)]
    fn load([byte]: [u8; 1]) -> Self {
        Self(u8::from(byte != 0))
    }

    #[inline(always)]
    fn store(self) -> [u8; 1] {
        [self.0]
    }

    #[inline(always)]
    fn sum(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline(always)]
    fn product(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[inline(always)]
    fn scale(self, _: f64) -> Self {
        self
    }
}

/// Difference of the exponents' biases, 127 - 15, as a factor: it makes a half's bits, moved up, into its value.
const HALF_BIAS: f32 = f32::from_bits((127 + 112) << 23);
/// The first exponent of a half that is infinity or no number, at its place in an `f32`.
const HALF_SPECIAL: u32 = 31 << 23;
/// The smallest `f32` that rounds to infinity: 65520.
const HALF_OVERFLOW: u32 = 0x477f_f000;
/// The smallest normal half, as the bits of an `f32`.
const HALF_NORMAL: u32 = 113 << 23;
/// Adding it moves the bits of a subnormal half to the end of the fraction, rounded by the hardware.
const HALF_SUBNORMAL_SHIFT: f32 = f32::from_bits(126 << 23);

#[inline(always)]
pub(super) fn half_to_f32(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let moved = u32::from(half & 0x7fff) << 13;
    let value = (f32::from_bits(moved) * HALF_BIAS).to_bits();
    // The multiplication gives infinity's exponent the largest finite one: say it again.
    let special = moved | 0x7f80_0000;
    f32::from_bits(sign | if moved >> 23 >= HALF_SPECIAL >> 23 { special } else { value })
}

/// Rounds to the nearest, ties to even.
#[inline(always)]
pub(super) fn half_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let size = bits & 0x7fff_ffff;
    let special = if size > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    let subnormal =
        (f32::from_bits(size) + HALF_SUBNORMAL_SHIFT).to_bits().wrapping_sub(HALF_SUBNORMAL_SHIFT.to_bits());
    let is_odd = (size >> 13) & 1;
    let normal = size.wrapping_sub(112 << 23).wrapping_add(0xfff + is_odd) >> 13;
    let rounded = if size < HALF_NORMAL { subnormal } else { normal };
    sign | if size >= HALF_OVERFLOW { special } else { rounded as u16 }
}

#[inline(always)]
pub(super) fn brain_to_f32(brain: u16) -> f32 {
    f32::from_bits(u32::from(brain) << 16)
}

/// Rounds to the nearest, ties to even.
#[inline(always)]
pub(super) fn brain_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if value.is_nan() { quiet } else { rounded }) as u16
}
