//! Repeatable chance.

use std::time::Duration;

/// A source of chance that a seed decides.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` up to and including `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Tells whether something happens that does so in this many cases of a hundred.
    pub fn percent(&mut self, cases: u64) -> bool {
        self.next() % 100 < cases
    }

    /// Returns a time of up to this long.
    pub fn time_up_to(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_millis()).expect("a short time");
        Duration::from_millis(self.between(0, most))
    }
}
