//! Numbers that are known between bounds.

/// The least and the most something can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bounds {
    pub min: u64,
    pub max: u64,
}

pub(super) const UNKNOWN: Bounds = Bounds { min: 0, max: u64::MAX };
pub(super) const ONE: Bounds = Bounds { min: 1, max: 1 };

impl Bounds {
    pub fn exactly(value: u64) -> Self {
        Self { min: value, max: value }
    }

    pub fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub fn scaled(self, factor: f64) -> Self {
        Self { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the estimate is a float rounded up, and saturates"
)]
fn scale(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}
