//! Which rank goes where: hosts in the given order, ranks consecutive on each. Pure.

use crate::hosts::Host;

/// The place of a rank in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub host: String,
    pub rank: usize,
    pub size: usize,
    /// The index among the ranks of its host, and their number.
    pub local_rank: usize,
    pub local_size: usize,
    /// The index of its host among the hosts that have this local rank, and their number.
    pub cross_rank: usize,
    pub cross_size: usize,
}

/// There is no room for all ranks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Requested more processes ({wanted}) than there are available slots ({available})")]
pub struct TooFewSlots {
    pub wanted: usize,
    pub available: usize,
}

/// Gives `np` ranks their places; slots beyond that stay empty.
pub fn assign(hosts: &[Host], np: usize) -> Result<Vec<Slot>, TooFewSlots> {
    let available = hosts.iter().map(|host| host.slots).sum();
    if np > available {
        return Err(TooFewSlots { wanted: np, available });
    }
    let used = used_slots(hosts, np);
    let hosts_with = |local_rank: usize| used.iter().filter(move |used| **used > local_rank).count();
    let cross_sizes: Vec<usize> = (0..used.iter().copied().max().unwrap_or_default()).map(hosts_with).collect();
    let mut cross_ranks = vec![0; cross_sizes.len()];
    let mut slots = Vec::with_capacity(np);
    for (host, local_size) in hosts.iter().zip(&used) {
        for local_rank in 0..*local_size {
            slots.push(Slot {
                host: host.name.clone(),
                rank: slots.len(),
                size: np,
                local_rank,
                local_size: *local_size,
                cross_rank: cross_ranks[local_rank],
                cross_size: cross_sizes[local_rank],
            });
            cross_ranks[local_rank] += 1;
        }
    }
    Ok(slots)
}

/// How many ranks each host gets.
fn used_slots(hosts: &[Host], np: usize) -> Vec<usize> {
    let mut left = np;
    let take = |host: &Host| {
        let taken = host.slots.min(left);
        left -= taken;
        taken
    };
    hosts.iter().map(take).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hosts::parse_list;

    fn check(hosts: &str, np: usize, expected: &str) {
        let found = match assign(&parse_list(hosts).unwrap(), np) {
            Ok(slots) => slots.iter().map(shown).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{hosts} np={np}");
    }

    /// `rank@host local/of cross/of`.
    fn shown(slot: &Slot) -> String {
        let Slot { host, rank, local_rank, local_size, cross_rank, cross_size, .. } = slot;
        format!("{rank}@{host}:{local_rank}/{local_size}:{cross_rank}/{cross_size}")
    }

    #[test]
    fn ranks_fill_the_hosts_in_order() {
        check("a:2", 2, "0@a:0/2:0/1 1@a:1/2:0/1");
        check("a:2,b:2", 4, "0@a:0/2:0/2 1@a:1/2:0/2 2@b:0/2:1/2 3@b:1/2:1/2");
        check("a:1,b:2", 3, "0@a:0/1:0/2 1@b:0/2:1/2 2@b:1/2:0/1");
        check("a:4", 2, "0@a:0/2:0/1 1@a:1/2:0/1");
        check("a:2,b:2,c:2", 3, "0@a:0/2:0/2 1@a:1/2:0/1 2@b:0/1:1/2");
        check("a:2", 3, "Requested more processes (3) than there are available slots (2)");
    }

    proptest! {
        #[test]
        fn places_agree_with_each_other(slots in prop::collection::vec(1_usize..5, 1..6), part in 0.0..1.0_f64) {
            let hosts: Vec<Host> =
                slots.iter().enumerate().map(|(index, slots)| Host { name: format!("h{index}"), slots: *slots }).collect();
            let all: usize = slots.iter().sum();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a small number")]
            let np = 1 + ((all - 1) as f64 * part) as usize;
            let places = assign(&hosts, np).unwrap();
            prop_assert_eq!(places.len(), np);
            for (index, place) in places.iter().enumerate() {
                prop_assert_eq!((place.rank, place.size), (index, np));
                let local: Vec<usize> =
                    places.iter().filter(|other| other.host == place.host).map(|other| other.local_rank).collect();
                prop_assert_eq!(&local, &(0..place.local_size).collect::<Vec<_>>());
                let cross: Vec<usize> =
                    places.iter().filter(|other| other.local_rank == place.local_rank).map(|other| other.cross_rank).collect();
                prop_assert_eq!(&cross, &(0..place.cross_size).collect::<Vec<_>>());
            }
        }
    }
}
