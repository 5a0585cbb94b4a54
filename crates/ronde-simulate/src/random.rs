//! Dice that fall the same way for the same seed, on every machine: integers and series, no library of the platform.

/// Dice (xorshift64*).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        // Any seed, also zero, gives a state that is not zero; neighbours differ at once.
        let mixed = (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    pub fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides.max(1)
    }

    /// A number from 0 up to below 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A waiting time for something that happens once in a mean time, independent of everything before.
    pub fn waiting(&mut self, mean: f64) -> f64 {
        -mean * ln(1.0 - self.fraction())
    }

    /// Picks by weights.
    pub fn pick<'a, T>(&mut self, weighted: &'a [(u64, T)]) -> Option<&'a T> {
        let mut left = self.roll(weighted.iter().map(|(weight, _)| weight).sum());
        weighted.iter().find_map(|(weight, value)| {
            let found = left < *weight;
            left = left.saturating_sub(*weight);
            found.then_some(value)
        })
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// The natural logarithm of a number above 0 and up to 1, by the series of the area tangent: the same bits everywhere.
fn ln(mut x: f64) -> f64 {
    let mut halvings = 0.0;
    while x < 0.5 && halvings < 64.0 {
        x *= 2.0;
        halvings += 1.0;
    }
    let y = (x - 1.0) / (x + 1.0);
    let (mut power, mut sum) = (y, 0.0);
    for odd in [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0, 19.0, 21.0] {
        sum += power / odd;
        power *= y * y;
    }
    2.0 * sum - halvings * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right() {
        for x in [1.0, 0.9, 0.5, 0.3, 0.01, 1e-9] {
            assert!((ln(x) - f64::ln(x)).abs() < 1e-9, "{x}: {} and {}", ln(x), f64::ln(x));
        }
    }

    #[test]
    fn waiting_times_have_their_mean() {
        let mut dice = Dice::new(7);
        let sum: f64 = (0..20_000).map(|_| dice.waiting(10.0)).sum();
        assert!((sum / 20_000.0 - 10.0).abs() < 0.3, "{sum}");
    }

    #[test]
    fn weights_are_heeded() {
        let mut dice = Dice::new(1);
        let mut counts = [0; 2];
        (0..10_000).for_each(|_| counts[*dice.pick(&[(3, 0), (1, 1)]).expect("there are some")] += 1);
        assert!((7_200..7_800).contains(&counts[0]), "{counts:?}");
        assert_eq!(dice.pick::<u8>(&[]), None);
    }
}
