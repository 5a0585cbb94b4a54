//! Amounts of resources, and how they are printed.
//!
//! An amount is an integer: of `cpu` in thousandths, of everything else in whole units (bytes, pieces). Sums saturate
//! rather than overflow.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::quantity::{bytes, rough_bytes};

/// The resource that is counted in thousandths.
pub const CPU: &str = "cpu";
/// The resource whose amounts are bytes.
pub const MEMORY: &str = "memory";
/// How many pods a node takes. Every pod needs one without saying so.
pub const PODS: &str = "pods";

/// The name of a resource, such as `cpu` or `nvidia.com/gpu`.
pub type ResourceName = Arc<str>;

/// How much of each resource. What is not named is zero, or unlimited where it is a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amounts(BTreeMap<ResourceName, i64>);

impl Amounts {
    /// Makes amounts from pairs.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, i64)>) -> Self {
        Self(pairs.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
    }

    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    pub fn set(&mut self, name: &str, amount: i64) {
        self.0.insert(name.into(), amount);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, i64)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(ResourceName, i64)> for Amounts {
    fn from_iter<T: IntoIterator<Item = (ResourceName, i64)>>(pairs: T) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, amount)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{} {name}", quantity(name, amount))?;
        }
        Ok(())
    }
}

/// Returns an amount of a resource as Kubernetes writes it: `500m`, `2Gi`, `4`.
pub fn quantity(name: &str, amount: i64) -> String {
    match name {
        CPU if amount % 1000 == 0 => (amount / 1000).to_string(),
        CPU => format!("{amount}m"),
        _ if is_bytes(name) => bytes(amount),
        _ => amount.to_string(),
    }
}

/// Returns an amount for people to read, of bytes a little less if that is shorter: `15.6Gi`.
pub fn rough_quantity(name: &str, amount: i64) -> String {
    if is_bytes(name) { rough_bytes(amount) } else { quantity(name, amount) }
}

fn is_bytes(name: &str) -> bool {
    matches!(name, MEMORY | "ephemeral-storage") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_printed_as_quantities() {
        let check = |name: &str, amount: i64, expected: &str| assert_eq!(quantity(name, amount), expected);
        check(CPU, 500, "500m");
        check(CPU, 2000, "2");
        check(CPU, -1500, "-1500m");
        check(MEMORY, 2 << 30, "2Gi");
        check(MEMORY, 1536 << 20, "1536Mi");
        check(MEMORY, 1000, "1k");
        check(MEMORY, 100_000_000_000, "100G");
        check(MEMORY, 0, "0");
        check("hugepages-2Mi", 4 << 20, "4Mi");
        check("nvidia.com/gpu", 1024, "1024");
        assert_eq!(rough_quantity(MEMORY, 16_767_328_256), "15.6Gi");
        assert_eq!(rough_quantity(CPU, 1500), "1500m");
        assert_eq!(Amounts::of([(MEMORY, 1 << 30), (CPU, 100)]).to_string(), "100m cpu, 1Gi memory");
    }
}
