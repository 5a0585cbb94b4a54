//! Who is in the next ring, and in which place: pure functions over the workers that there are.

use std::{cmp::Reverse, collections::BTreeMap};

use ronde_collective::control_channel::Assignment;

use super::model::WorkerId;

/// A worker that could be in the next ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: WorkerId,
    /// The commits of the state that it has; none if it has no state.
    pub(super) commits: Option<u64>,
    /// Its host is no longer one of the job's.
    pub(super) is_departing: bool,
}

/// The members of the next ring in the order of their ranks: who has the newest state is first, then by age.
///
/// Who is departing is left out. If nobody else has its state, or one as new, it stays for one more ring, to hand it on.
pub(super) fn members(mut candidates: Vec<Candidate>, max: usize) -> Vec<WorkerId> {
    candidates.sort_by_key(|it| (it.commits.is_none(), Reverse(it.commits), it.id));
    let (departing, mut staying): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|it| it.is_departing);
    let newest = staying.first().map(|it| it.commits);
    if let Some(heir) = departing.into_iter().find(|it| newest.is_some_and(|newest| it.commits > newest)) {
        staying.insert(0, heir);
    }
    staying.truncate(max);
    staying.into_iter().map(|it| it.id).collect()
}

/// Where the members are, as host and slot, in the order of their ranks: their places.
///
/// Ranks of one host are numbered by their slots, so that a rank that is started again gets its predecessor's number.
pub(super) fn places(generation: u64, sites: &[(&str, usize)]) -> Vec<Assignment> {
    let mut hosts: Vec<&str> = Vec::new();
    let mut slots: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (host, slot) in sites {
        let on_host = slots.entry(host).or_insert_with(|| {
            hosts.push(host);
            Vec::new()
        });
        on_host.push(*slot);
    }
    slots.values_mut().for_each(|slots| slots.sort_unstable());
    // The hosts that have a rank of each local number, and so the place of each host among them.
    let mut crossed: Vec<usize> = Vec::new();
    let mut cross: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    for host in &hosts {
        let count = slots.get(host).map_or(0, Vec::len);
        crossed.resize(crossed.len().max(count), 0);
        for (local_rank, reached) in crossed.iter_mut().enumerate().take(count) {
            cross.insert((host, local_rank), *reached);
            *reached += 1;
        }
    }
    let place = |(rank, (host, slot)): (usize, &(&str, usize))| {
        let on_host = slots.get(host).map_or(&[][..], Vec::as_slice);
        let local_rank = on_host.binary_search(slot).unwrap_or(0);
        Assignment {
            generation,
            rank,
            size: sites.len(),
            local_rank,
            local_size: on_host.len(),
            cross_rank: cross.get(&(*host, local_rank)).copied().unwrap_or(0),
            cross_size: crossed.get(local_rank).copied().unwrap_or(1),
            ..Assignment::default()
        }
    };
    sites.iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::{Candidate, WorkerId, members, places};

    fn check(name: &str, candidates: &[(u64, Option<u64>, bool)], max: usize, expected: &[u64]) {
        let candidate = |&(id, commits, is_departing): &(u64, Option<u64>, bool)| Candidate {
            id: WorkerId(id),
            commits,
            is_departing,
        };
        let found = members(candidates.iter().map(candidate).collect(), max);
        assert_eq!(found, expected.iter().map(|id| WorkerId(*id)).collect::<Vec<_>>(), "{name}");
    }

    #[test]
    fn the_next_ring() {
        check("nobody", &[], 4, &[]);
        check("at the start, by age", &[(2, None, false), (1, None, false)], 4, &[1, 2]);
        check("who has a state is before who has none", &[(1, None, false), (2, Some(3), false)], 4, &[2, 1]);
        check("the newest state is first", &[(1, Some(3), false), (2, Some(4), false)], 4, &[2, 1]);
        check("the youngest are too many", &[(1, Some(3), false), (2, None, false), (3, None, false)], 2, &[1, 2]);
        check("who departs is left out", &[(1, Some(3), true), (2, Some(3), false)], 4, &[2]);
        check("unless it has the newest one", &[(1, Some(4), true), (2, Some(3), false)], 4, &[1, 2]);
        check("unless nobody else has the state", &[(1, Some(3), true), (2, None, false)], 4, &[1, 2]);
        check("one is enough for that", &[(1, Some(3), true), (2, Some(4), true), (3, None, false)], 4, &[2, 3]);
        check("and there must be an heir", &[(1, Some(3), true)], 4, &[]);
    }

    #[test]
    fn places_are_horovods() {
        let shown = |sites: &[(&str, usize)]| -> Vec<String> {
            let show = |it: super::Assignment| {
                let (local, cross) = ((it.local_rank, it.local_size), (it.cross_rank, it.cross_size));
                format!("{}/{} {}/{} {}/{}", it.rank, it.size, local.0, local.1, cross.0, cross.1)
            };
            places(1, sites).into_iter().map(show).collect()
        };
        assert_eq!(shown(&[("a", 0), ("a", 1), ("b", 0)]), ["0/3 0/2 0/2", "1/3 1/2 0/1", "2/3 0/1 1/2"]);
        // The replacement of the rank in the first slot is local rank 0 again.
        assert_eq!(shown(&[("a", 1), ("b", 0), ("a", 0)]), ["0/3 1/2 0/1", "1/3 0/1 1/2", "2/3 0/2 0/2"]);
    }
}
