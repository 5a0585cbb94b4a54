//! Hosts that failed are left alone for a while, longer each time, and tried again.

use std::{collections::BTreeMap, time::Duration};

/// Which hosts are left alone, and until when.
#[derive(Debug)]
pub(super) struct Cooldowns {
    first: Duration,
    longest: Duration,
    hosts: BTreeMap<String, Cooling>,
}

#[derive(Debug)]
struct Cooling {
    failures: u32,
    until: Duration,
}

impl Cooldowns {
    pub(super) const fn new((first, longest): (Duration, Duration)) -> Self {
        Self { first, longest, hosts: BTreeMap::new() }
    }

    /// Notes a failure; false if the host is left alone already, because of the same trouble.
    pub(super) fn fail(&mut self, host: &str, now: Duration) -> bool {
        let cooling = self.hosts.entry(host.to_owned()).or_insert(Cooling { failures: 0, until: Duration::ZERO });
        if now < cooling.until {
            return false;
        }
        // A host that has worked for long enough since is as good as new.
        let is_forgiven = now.saturating_sub(cooling.until) > self.longest * 2;
        cooling.failures = if is_forgiven { 1 } else { cooling.failures.saturating_add(1) };
        let growth = 1_u32.checked_shl(cooling.failures - 1).unwrap_or(u32::MAX);
        cooling.until = now + self.first.saturating_mul(growth).min(self.longest);
        true
    }

    /// Until when the host is left alone; nothing if it may be used.
    pub(super) fn until(&self, host: &str, now: Duration) -> Option<Duration> {
        self.hosts.get(host).map(|cooling| cooling.until).filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Cooldowns;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_host_is_left_alone_for_longer_each_time() {
        let mut cooldowns = Cooldowns::new((seconds(1), seconds(3)));
        assert_eq!(cooldowns.until("a", seconds(0)), None);
        assert!(cooldowns.fail("a", seconds(0)));
        assert!(!cooldowns.fail("a", seconds(0)), "its other ranks went with the first");
        assert_eq!(cooldowns.until("a", seconds(0)), Some(seconds(1)));
        assert_eq!(cooldowns.until("b", seconds(0)), None);
        assert_eq!(cooldowns.until("a", seconds(1)), None);
        assert!(cooldowns.fail("a", seconds(2)));
        assert_eq!(cooldowns.until("a", seconds(2)), Some(seconds(4)));
        assert!(cooldowns.fail("a", seconds(4)));
        assert_eq!(cooldowns.until("a", seconds(4)), Some(seconds(7)), "at most three seconds");
    }

    #[test]
    fn a_host_that_has_worked_since_is_forgiven() {
        let mut cooldowns = Cooldowns::new((seconds(1), seconds(4)));
        for at in [0, 1, 3] {
            assert!(cooldowns.fail("a", seconds(at)));
        }
        assert!(cooldowns.fail("a", seconds(100)));
        assert_eq!(cooldowns.until("a", seconds(100)), Some(seconds(101)));
    }
}
