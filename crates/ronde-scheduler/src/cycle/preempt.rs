//! Makes room by pushing out others: less important gangs of the same queue, or what other queues have above their part.
//!
//! Victims ([`victims`](super::victims)) are taken away from the state until the gang fits whole, then given back one by one
//! as long as it still does; what remains is evicted, and the room is held until they have left. Priority preemption goes strictly
//! downwards; after a reclaim the queue has at most what it deserves, so that nobody can take it back: neither can
//! go round in circles. A limit that is in the way is as good as a lack of room: what is reclaimed then comes from below the
//! queue that has it. Those that have not run long enough ([`patience`](super::patience)) stay: what will be possible then is
//! only told. Cost: log(victims) + remaining victims attempts.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Cycle,
    patience::NotYet,
    place::Placement,
    room::Asks,
    victims::{Victim, Victims},
};
use crate::{
    cluster::{
        nodes::{Mode, NodeState},
        table::Row,
    },
    model::ids::{GroupId, Time},
    plan::Eviction,
};

/// How many victims are looked at to be spared; beyond that they go.
const SPARED_MAX: usize = 256;

/// How many victims are tried before it is asked whether all of them would be enough, which costs a walk over all their pods.
const TRIED_BLINDLY: usize = 32;

/// Why others have to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Preemption,
    Reclaim,
    /// Those who go have room elsewhere.
    Move,
}

impl Cause {
    fn eviction(self, by: GroupId) -> Eviction {
        match self {
            Self::Preemption => Eviction::Preempted { by },
            Self::Reclaim => Eviction::Reclaimed { by },
            Self::Move => Eviction::Moved { by },
        }
    }
}

/// How victims are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// Those that are not in the way are spared at once.
    InAnyOrder,
    /// Those that come first go first.
    InOrder,
    /// All find room elsewhere.
    ToMove,
}

/// An attempt of a gang of equal pods that failed; one that asks for no less with no better right fails too.
#[derive(Debug)]
pub struct Attempt {
    cause: Cause,
    account: usize,
    limited_by: Option<usize>,
    priority: i32,
    class: usize,
    least: u64,
}

/// A pod that is taken away for a try.
struct Taken {
    node: usize,
    /// How many victims it is part of: a spare pod is also part of its whole gang.
    covers: u32,
}

/// Who has to go for a gang.
struct Found {
    /// Queues and pods.
    pods: Vec<(usize, usize)>,
    /// Where the gang then fits.
    placement: Placement,
    /// When all of them have run long enough.
    kept_until: Time,
    /// The group that is kept until then.
    last_group: usize,
}

/// What has been taken away for a try.
#[derive(Default)]
struct Removed {
    taken: BTreeMap<usize, Taken>,
    of_group: BTreeMap<usize, BTreeSet<usize>>,
    by_victim: BTreeMap<(usize, Option<usize>), Vec<usize>>,
    /// Those that could stay after all, where the gang was last found to fit.
    stay: BTreeSet<usize>,
}

impl Removed {
    fn pods(&self, victim: &Victim) -> Vec<usize> {
        self.by_victim.get(&victim.key()).cloned().unwrap_or_default()
    }
}

impl Cycle<'_> {
    /// Pushes out less important gangs of the same queue.
    pub fn preempt(&mut self, asks: &Asks<'_>) -> bool {
        let state = self.cluster.groups.get(asks.slot);
        let Some(group) = state.group.as_ref().filter(|group| group.preempts && self.cluster.policy.preempts) else {
            return false;
        };
        let running = self.cluster.demand.get(&group.queue).and_then(|demand| demand.running.first());
        if running.is_none_or(|first| first.priority >= group.priority) {
            return false;
        }
        self.push_out(asks, Cause::Preemption)
    }

    /// Takes back what other queues use above their part.
    pub fn reclaim(&mut self, asks: &Asks<'_>) -> bool {
        let group = self.cluster.groups.get(asks.slot).group.as_ref();
        // Nobody else is in the own queue, whose limit only its own groups can make way for.
        let is_own_limit = asks.limited_by == Some(asks.account);
        if !self.cluster.policy.reclaims || group.is_none_or(|group| !group.preempts) || is_own_limit {
            return false;
        }
        self.push_out(asks, Cause::Reclaim)
    }

    pub fn push_out(&mut self, asks: &Asks<'_>, cause: Cause) -> bool {
        let attempt = self.attempt(asks, cause);
        if attempt.as_ref().is_some_and(|attempt| self.hopeless.iter().any(|failed| failed.rules_out(attempt))) {
            return false;
        }
        let may_at = if cause == Cause::Reclaim { self.may_reclaim_at(asks) } else { self.now };
        if self.now < may_at {
            self.push_out_later(asks, cause, may_at);
            return false;
        }
        let mut victims = self.victims(asks, cause);
        let how = if cause == Cause::Move { Search::ToMove } else { Search::InAnyOrder };
        let Some(found) = self.search(asks, &mut victims, how) else {
            if victims.has_kept {
                self.push_out_later(asks, cause, may_at);
            }
            self.hopeless.extend(attempt);
            return false;
        };
        self.hopeless.clear();
        let by = self.cluster.groups.get(asks.slot).id.clone();
        found.pods.into_iter().for_each(|(account, pod)| self.evict(account, pod, cause.eviction(by.clone())));
        self.nominate(asks, &found.placement);
        true
    }

    fn victims(&self, asks: &Asks<'_>, cause: Cause) -> Victims {
        match cause {
            Cause::Preemption => Victims::less_important(self, asks),
            Cause::Reclaim => Victims::above_their_part(self, asks),
            Cause::Move => Victims::movable(self),
        }
    }

    /// Notes whom a gang may push out when they have run long enough, and it has waited long enough.
    fn push_out_later(&mut self, asks: &Asks<'_>, cause: Cause, may_at: Time) {
        let mut victims = self.victims(asks, cause).by_time(self);
        let how = if cause == Cause::Move { Search::ToMove } else { Search::InOrder };
        if let Some(found) = self.search(asks, &mut victims, how) {
            let until = found.kept_until.max(may_at);
            self.look_again(until);
            self.not_yet.insert(asks.slot, NotYet { cause, victim: found.last_group, until });
        }
    }

    /// Describes an attempt, if it can be compared with others.
    fn attempt(&self, asks: &Asks<'_>, cause: Cause) -> Option<Attempt> {
        let state = self.cluster.groups.get(asks.slot);
        let group = state.group.as_ref()?;
        let &[(class, least)] = &*asks.gang.least else { return None };
        let is_plain = group.topology.is_none()
            && group.subgroups.is_empty()
            && least == u64::from(asks.gang.needs.pods)
            && !self.cluster.classes.get(class).has_rules;
        let (account, limited_by, priority) = (asks.account, asks.limited_by, group.priority);
        is_plain.then_some(Attempt { cause, account, limited_by, priority, class, least })
    }
}

/// Which of them have to go.
impl Cycle<'_> {
    /// Tells whether there could be room for every class if all victims went.
    fn may_help(&self, asks: &Asks<'_>, victims: &[Victim]) -> bool {
        let groups: BTreeSet<usize> = victims.iter().map(|victim| victim.group).collect();
        let mut freed = vec![Row::default(); if groups.is_empty() { 0 } else { self.cluster.nodes.slots.len() }];
        for pod in
            groups.into_iter().flat_map(|group| self.staying(group)).filter(|pod| self.cluster.pods.get(*pod).may_go())
        {
            let state = self.cluster.pods.get(pod);
            if let Some(node) = state.node {
                freed[node].add_request(&self.cluster.classes.get(state.class).request, 1);
            }
        }
        let has_room = |(class, least): &(usize, u64)| {
            let class = self.cluster.classes.get(*class);
            let fits = |(slot, place): (usize, &NodeState)| {
                let count =
                    |(id, amount): &(usize, i64)| (place.room(*id, Mode::Future) + freed[slot].get(*id)) / amount;
                let fits = class.request.iter().map(count).min().unwrap_or(0).max(0);
                if class.mismatch(place).is_some() { 0 } else { u64::try_from(fits).unwrap_or(0) }
            };
            self.cluster.nodes.present().map(fits).sum::<u64>() >= *least
        };
        !victims.is_empty() && asks.gang.least.iter().all(has_room)
    }

    /// Finds the pods that have to go, and where the gang then fits.
    fn search(&mut self, asks: &Asks<'_>, source: &mut Victims, how: Search) -> Option<Found> {
        let mut removed = Removed::default();
        let (mut victims, mut taken, mut has_hope) = (Vec::new(), 0, false);
        let mut placement = None;
        while placement.is_none() {
            if taken >= TRIED_BLINDLY && !has_hope {
                victims.extend(std::iter::from_fn(|| source.next(self)));
                has_hope = self.may_help(asks, &victims[taken..]);
                if !has_hope {
                    break;
                }
            }
            // Twice as many with every try.
            let until = (2 * taken).max(taken + 1);
            while victims.len() < until
                && let Some(victim) = source.next(self)
            {
                victims.push(victim);
            }
            if victims.len() == taken {
                break;
            }
            let until = until.min(victims.len());
            victims[taken..until].iter().for_each(|victim| self.remove(&mut removed, victim));
            taken = until;
            placement = self.fits_without(asks, &mut removed, how);
        }
        let mut chosen: Vec<&Victim> = victims[..taken].iter().collect();
        if let Some(mut found) = placement {
            if how != Search::InOrder {
                found = self.spare_bystanders(asks, &mut removed, &mut chosen, (found, how));
            }
            placement = Some(self.spare_last(asks, &mut removed, &mut chosen, (found, how)));
        }
        let mut pods = BTreeMap::new();
        for victim in &chosen {
            let gone = removed.pods(victim).into_iter().filter(|pod| !removed.stay.contains(pod));
            pods.extend(gone.map(|pod| (self.cluster.pods.id(pod).clone(), (victim.account, pod))));
        }
        chosen.iter().for_each(|victim| self.restore(&mut removed, victim));
        let placement = placement?;
        let last = chosen.into_iter().max_by_key(|victim| self.kept_until(victim))?;
        let (kept_until, last_group) = (self.kept_until(last), last.group);
        Some(Found { pods: pods.into_values().collect(), placement, kept_until, last_group })
    }

    /// Returns where a gang fits without those that were taken away, if these have somewhere to go where they need that.
    fn fits_without(&mut self, asks: &Asks<'_>, removed: &mut Removed, how: Search) -> Option<Placement> {
        if how != Search::ToMove {
            return self.fits_in_future(asks);
        }
        let moved: Placement = removed.taken.iter().map(|(pod, taken)| (*pod, taken.node)).collect();
        let (placement, homes) = self.fits_beside(asks, &moved)?;
        removed.stay = homes.iter().filter(|home| moved.contains(home)).map(|(pod, _)| *pod).collect();
        Some(placement)
    }

    /// Gives back victims that are not where the gang would go; returns where it fits then.
    fn spare_bystanders<'v>(
        &mut self,
        asks: &Asks<'_>,
        removed: &mut Removed,
        chosen: &mut Vec<&'v Victim>,
        (mut placement, how): (Placement, Search),
    ) -> Placement {
        let wanted: BTreeSet<usize> = placement.iter().map(|(_, node)| *node).collect();
        let is_in_the_way =
            |victim: &&Victim| removed.pods(victim).iter().any(|pod| wanted.contains(&removed.taken[pod].node));
        let (needed, bystanders): (Vec<&'v Victim>, Vec<&'v Victim>) = chosen.iter().copied().partition(is_in_the_way);
        bystanders.iter().for_each(|victim| self.restore(removed, victim));
        if let Some(found) = self.fits_without(asks, removed, how) {
            placement = found;
            *chosen = needed;
        } else {
            bystanders.iter().for_each(|victim| self.remove(removed, victim));
        }
        placement
    }

    /// Gives back victims that need not go, the last first; returns where the gang fits then.
    fn spare_last(
        &mut self,
        asks: &Asks<'_>,
        removed: &mut Removed,
        chosen: &mut Vec<&Victim>,
        (mut placement, how): (Placement, Search),
    ) -> Placement {
        for index in (0..chosen.len()).rev().take(SPARED_MAX) {
            let victim = chosen[index];
            self.restore(removed, victim);
            if let Some(found) = self.fits_without(asks, removed, how) {
                placement = found;
                chosen.remove(index);
            } else {
                self.remove(removed, victim);
            }
        }
        placement
    }

    fn remove(&mut self, removed: &mut Removed, victim: &Victim) {
        let pods = match victim.spare {
            Some(pod) => vec![pod],
            None => {
                let mut pods: Vec<usize> = self.staying(victim.group).collect();
                pods.extend(removed.of_group.get(&victim.group).into_iter().flatten());
                pods
            }
        };
        for pod in &pods {
            if let Some(taken) = removed.taken.get_mut(pod) {
                taken.covers += 1;
            } else if let Some(node) = self.cluster.pods.get(*pod).node {
                removed.taken.insert(*pod, Taken { node, covers: 1 });
                removed.of_group.entry(victim.group).or_default().insert(*pod);
                self.cluster.vacate(*pod);
                self.count(victim.account, *pod, -1);
            }
        }
        removed.by_victim.insert(victim.key(), pods);
    }

    fn restore(&mut self, removed: &mut Removed, victim: &Victim) {
        for pod in removed.by_victim.remove(&victim.key()).unwrap_or_default() {
            let Some(taken) = removed.taken.get_mut(&pod) else { continue };
            taken.covers -= 1;
            if taken.covers == 0 {
                let node = taken.node;
                removed.taken.remove(&pod);
                removed.of_group.entry(victim.group).or_default().remove(&pod);
                self.cluster.occupy(pod, node);
                self.count(victim.account, pod, 1);
            }
        }
    }

    fn count(&mut self, account: usize, pod: usize, times: i64) {
        let class = self.cluster.pods.get(pod).class;
        self.ledger.allocate(account, &self.cluster.classes.get(class).request, times);
    }
}

impl Attempt {
    /// Tells whether another attempt must fail because this one did.
    fn rules_out(&self, other: &Self) -> bool {
        let has_better_right = self.priority >= other.priority || self.cause == Cause::Reclaim;
        let is_alike = (self.cause, self.account, self.limited_by, self.class)
            == (other.cause, other.account, other.limited_by, other.class);
        is_alike && has_better_right && self.least <= other.least
    }
}
