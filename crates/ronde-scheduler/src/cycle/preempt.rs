//! Makes room by pushing out others: less important gangs of the same queue, or what other queues have above their part.
//!
//! Victims go by gang: pods above a gang's minimum first, each alone; then whole gangs. Those of low priority and young ones
//! go first, and those last whose going a budget of disruption does not allow. Victims are taken away from the state until the gang fits whole, then given back one by one as long as it
//! still does; what remains is evicted, and the room is held until they have left. Priority preemption goes strictly
//! downwards; after a reclaim the queue has at most what it deserves, so that nobody can take it back: neither can
//! go round in circles. A limit that is in the way is as good as a lack of room: what is reclaimed then comes from below the
//! queue that has it. Cost: a walk over the groups, then log(victims) + remaining victims attempts.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{Cycle, ledger::Asker, minimum_request, place::Placement, room::Asks};
use crate::{
    cluster::{
        nodes::{Mode, NodeState},
        table::{PODS_ID, Row},
    },
    model::{
        budget::Budget,
        ids::{GroupId, Time},
    },
    plan::Eviction,
};

/// How many victims are looked at to be spared; beyond that they go.
const SPARED_MAX: usize = 256;

/// How many victims are tried before it is asked whether all of them would be enough, which costs a walk over their pods.
const TRIED_BLINDLY: usize = 32;

/// Why others have to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Preemption,
    Reclaim,
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

/// Pods that go together: one that is above the minimum of its group, or all of a group.
#[derive(Debug)]
struct Victim {
    account: usize,
    group: usize,
    spare: Option<usize>,
    order: (bool, i32, Reverse<Time>, GroupId),
    /// Its going is more than a budget allows.
    breaks_budget: bool,
}

impl Victim {
    fn key(&self) -> (usize, Option<usize>) {
        (self.group, self.spare)
    }
}

/// A pod that is taken away for a try.
struct Taken {
    node: usize,
    /// How many victims it is part of: a spare pod is also part of its whole gang.
    covers: u32,
}

/// What has been taken away for a try.
#[derive(Default)]
struct Removed {
    taken: BTreeMap<usize, Taken>,
    of_group: BTreeMap<usize, BTreeSet<usize>>,
    by_victim: BTreeMap<(usize, Option<usize>), Vec<usize>>,
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
        let running = self.cluster.demand.get(&group.queue).and_then(|demand| demand.running.keys().next());
        if running.is_none_or(|least| *least >= group.priority) {
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

    fn push_out(&mut self, asks: &Asks<'_>, cause: Cause) -> bool {
        let attempt = self.attempt(asks, cause);
        if attempt.as_ref().is_some_and(|attempt| self.hopeless.iter().any(|failed| failed.rules_out(attempt))) {
            return false;
        }
        let mut victims = match cause {
            Cause::Preemption => self.less_important(asks),
            Cause::Reclaim => self.above_their_part(asks),
        };
        self.put_in_order(&mut victims);
        let Some((chosen, placement)) = self.search(asks, &victims) else {
            self.hopeless.extend(attempt);
            return false;
        };
        self.hopeless.clear();
        let by = self.cluster.groups.get(asks.slot).id.clone();
        for (account, pod) in chosen {
            let by = by.clone();
            let why = match cause {
                Cause::Preemption => Eviction::Preempted { by },
                Cause::Reclaim => Eviction::Reclaimed { by },
            };
            self.evict(account, pod, why);
        }
        self.nominate(asks, &placement);
        true
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

/// Who may go.
impl Cycle<'_> {
    fn less_important(&self, asks: &Asks<'_>) -> Vec<Victim> {
        let own = self.cluster.groups.get(asks.slot);
        let queue = own.group.as_ref().map(|group| &group.queue);
        let others = self.cluster.groups.iter().filter(|(_, state)| {
            let group = state.group.as_ref();
            state.bound > 0 && state.priority() < own.priority() && group.map(|group| &group.queue) == queue
        });
        others.flat_map(|(slot, _)| self.victims_of(slot, asks.account)).collect()
    }

    /// Returns victims of other queues, in the order in which they may be taken.
    fn above_their_part(&self, asks: &Asks<'_>) -> Vec<Victim> {
        let request = minimum_request(self.cluster, asks.gang);
        let rights: BTreeMap<usize, Vec<usize>> = (1..self.ledger.accounts.len())
            .filter(|other| self.ledger.accounts[*other].children.is_empty())
            .filter(|other| asks.limited_by.is_none_or(|limit| self.ledger.path(*other).contains(&limit)))
            .filter_map(|other| Some((other, self.levels_above_part(asks, other, &request)?)))
            .collect();
        let mut victims = Vec::new();
        if rights.is_empty() {
            return victims;
        }
        for (slot, state) in self.cluster.groups.iter().filter(|(_, state)| state.bound > 0) {
            let account = state.group.as_ref().and_then(|group| self.ledger.find(&group.queue));
            if let Some(account) = account.filter(|account| rights.contains_key(account)) {
                victims.extend(self.victims_of(slot, account));
            }
        }
        self.put_in_order(&mut victims);
        let mut taken: BTreeMap<usize, Row> = BTreeMap::new();
        let mut spent = BTreeSet::new();
        victims.retain(|victim| {
            let levels = &rights[&victim.account];
            // Most have no more than their part soon: nobody else of them needs to be looked at.
            let is_spent = |level: &usize| !self.is_above(*level, taken.get(level), &request, |_| true);
            if spent.contains(&victim.account) || levels.iter().any(is_spent) {
                spent.insert(victim.account);
                return false;
            }
            let row = self.row_of(victim);
            let may_go = levels.iter().all(|level| self.may_lose(*level, taken.get(level), &row, &request));
            if may_go {
                levels.iter().for_each(|level| taken.entry(*level).or_default().add_row(&row, 1));
            }
            may_go
        });
        victims
    }

    fn row_of(&self, victim: &Victim) -> Row {
        let Some(pod) = victim.spare else { return self.cluster.groups.get(victim.group).allocated.clone() };
        let mut row = Row::default();
        row.add_request(&self.cluster.classes.get(self.cluster.pods.get(pod).class).request, 1);
        row
    }

    /// Returns the queues from another one up to where the ways to the root meet, if those of the asker on the way have
    /// no more than they deserve with what it asks, and the others may be taken from.
    fn levels_above_part(&self, asks: &Asks<'_>, other: usize, request: &[(usize, i64)]) -> Option<Vec<usize>> {
        let (own, theirs) = (self.ledger.path(asks.account), self.ledger.path(other));
        let state = self.cluster.groups.get(asks.slot);
        let asker = Asker { group: &state.id, priority: i32::MIN, counts_leaving: true };
        let stays_within = |level: &usize| {
            let account = &self.ledger.accounts[*level];
            request.iter().filter(|(id, _)| *id != PODS_ID).all(|(id, amount)| {
                let has = account.allocated.get(*id) - account.leaving.get(*id) + self.ledger.held(*level, *id, &asker);
                has + amount <= account.deserved.get(*id)
            })
        };
        let deserves =
            other != asks.account && own.iter().take_while(|level| !theirs.contains(level)).all(stays_within);
        let levels: Vec<usize> = theirs.into_iter().take_while(|level| !own.contains(level)).collect();
        let is_reclaimable = levels.iter().all(|level| self.ledger.accounts[*level].queue.reclaimable);
        let is_above = |level: &usize| self.is_above(*level, None, request, |_| true);
        (deserves && is_reclaimable && levels.iter().all(is_above)).then_some(levels)
    }

    /// Tells whether a queue is above its part in something that is asked and that a victim has, and keeps its guarantee.
    fn may_lose(&self, level: usize, taken: Option<&Row>, row: &Row, request: &[(usize, i64)]) -> bool {
        let guarantee = |id: usize| self.ledger.accounts[level].guarantee(id);
        self.is_above(level, taken, request, |id| row.get(id) > 0)
            && row.positive().iter().all(|(id, amount)| self.left(level, taken, *id) - amount >= guarantee(*id))
    }

    /// Tells whether a queue is above its part in something that is asked and that `counts`.
    fn is_above(
        &self,
        level: usize,
        taken: Option<&Row>,
        request: &[(usize, i64)],
        counts: impl Fn(usize) -> bool,
    ) -> bool {
        let deserved = &self.ledger.accounts[level].deserved;
        let mut asked = request.iter().map(|(id, _)| *id).filter(|id| *id != PODS_ID && counts(*id));
        asked.any(|id| self.left(level, taken, id) > deserved.get(id))
    }

    /// Returns what a queue has of a resource beside what is taken from it.
    fn left(&self, level: usize, taken: Option<&Row>, id: usize) -> i64 {
        let account = &self.ledger.accounts[level];
        account.allocated.get(id) - account.leaving.get(id) - taken.map_or(0, |taken| taken.get(id))
    }

    /// Returns the pods of a group above its minimum one by one, and then all of them together.
    fn victims_of(&self, slot: usize, account: usize) -> Vec<Victim> {
        let state = self.cluster.groups.get(slot);
        let Some(group) = &state.group else { return Vec::new() };
        let victim = |spare: Option<usize>| {
            let order = (spare.is_none(), group.priority, Reverse(group.created), group.id.clone());
            Victim { account, group: slot, spare, order, breaks_budget: false }
        };
        let spare = if state.placed > group.min_member { self.spare(slot) } else { Vec::new() };
        let mut victims: Vec<Victim> = spare.into_iter().map(|pod| victim(Some(pod))).collect();
        if state.staying > 0 && state.fixed == 0 {
            victims.push(victim(None));
        }
        victims
    }

    /// Sorts victims: those first that go first. A budget is for those of them that come first.
    fn put_in_order(&self, victims: &mut [Victim]) {
        victims.sort_by(|a, b| a.order.cmp(&b.order));
        if self.cluster.budgets.values().all(BTreeMap::is_empty) {
            return;
        }
        let spares: BTreeSet<usize> = victims.iter().filter_map(|victim| victim.spare).collect();
        let mut used: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for victim in &mut *victims {
            let pods = match victim.spare {
                Some(pod) => vec![pod],
                None => self.staying(victim.group).filter(|pod| !spares.contains(pod)).collect(),
            };
            let mut wanted: BTreeMap<(&str, &str), (u32, u32)> = BTreeMap::new();
            for budget in pods.into_iter().flat_map(|pod| self.budgets_of(pod)) {
                wanted.entry((&budget.namespace, &budget.name)).or_insert((0, budget.allowed)).0 += 1;
            }
            let used_of = |id: &(&str, &str)| used.get(id).copied().unwrap_or(0);
            victim.breaks_budget = wanted.iter().any(|(id, (count, allowed))| used_of(id) + count > *allowed);
            if !victim.breaks_budget {
                wanted.into_iter().for_each(|(id, (count, _))| *used.entry(id).or_default() += count);
            }
        }
        victims.sort_by_key(|victim| victim.breaks_budget);
    }

    fn budgets_of(&self, pod: usize) -> impl Iterator<Item = &Budget> {
        let pod = &self.cluster.pods.get(pod).pod;
        let of_namespace = self.cluster.budgets.get(pod.id.namespace());
        of_namespace.into_iter().flat_map(BTreeMap::values).filter(|budget| budget.covers(&pod.labels))
    }

    /// Returns the pods of a group that have room and are not leaving.
    fn staying(&self, slot: usize) -> impl Iterator<Item = usize> {
        let pods = self.cluster.groups.get(slot).pods.iter().copied();
        pods.filter(|pod| self.cluster.pods.get(*pod).is_staying())
    }

    /// Returns the pods that a gang can lose and still have its minimum, the last first.
    fn spare(&self, slot: usize) -> Vec<usize> {
        let state = self.cluster.groups.get(slot);
        let Some(group) = state.group.as_ref().filter(|group| group.subgroups.is_empty()) else { return Vec::new() };
        let heeds_tasks = group.min_member >= group.min_task_member.values().sum();
        let mut left = state.placed;
        let mut by_task: BTreeMap<&str, u32> = BTreeMap::new();
        for pod in state.pods.iter().map(|pod| self.cluster.pods.get(*pod)).filter(|pod| pod.is_placed()) {
            *by_task.entry(&pod.pod.task).or_default() += 1;
        }
        let mut spare = Vec::new();
        let mut last_first: Vec<usize> = self.staying(slot).collect();
        last_first.sort_by_key(|pod| {
            let pod = &self.cluster.pods.get(*pod).pod;
            (pod.priority, Reverse(pod.index), Reverse(&pod.id))
        });
        for slot in last_first {
            let pod = &self.cluster.pods.get(slot).pod;
            let least = group.min_task_member.get(&pod.task).copied().filter(|_| heeds_tasks).unwrap_or(0);
            let of_task = by_task.entry(&pod.task).or_default();
            if left > group.min_member && *of_task > least && self.cluster.pods.get(slot).may_go() {
                left -= 1;
                *of_task -= 1;
                spare.push(slot);
            }
        }
        spare
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

    /// Returns the pods that have to go and where the gang then fits.
    fn search(&mut self, asks: &Asks<'_>, victims: &[Victim]) -> Option<(Vec<(usize, usize)>, Placement)> {
        let mut removed = Removed::default();
        let (mut taken, mut has_hope) = (0, false);
        let mut placement = None;
        while taken < victims.len() && placement.is_none() {
            if taken >= TRIED_BLINDLY && !has_hope {
                has_hope = self.may_help(asks, &victims[taken..]);
                if !has_hope {
                    break;
                }
            }
            // Twice as many with every try.
            let until = (2 * taken).clamp(taken + 1, victims.len());
            victims[taken..until].iter().for_each(|victim| self.remove(&mut removed, victim));
            taken = until;
            placement = self.fits_in_future(asks);
        }
        let mut chosen: Vec<&Victim> = victims[..taken].iter().collect();
        if let Some(found) = placement {
            placement = Some(self.spare_bystanders(asks, &mut removed, &mut chosen, found));
        }
        let mut pods = BTreeMap::new();
        for victim in &chosen {
            let gone = removed.pods(victim).into_iter();
            pods.extend(gone.map(|pod| (self.cluster.pods.id(pod).clone(), (victim.account, pod))));
        }
        chosen.iter().for_each(|victim| self.restore(&mut removed, victim));
        Some((pods.into_values().collect(), placement?))
    }

    /// Gives back victims that need not go; returns where the gang fits then.
    fn spare_bystanders<'v>(
        &mut self,
        asks: &Asks<'_>,
        removed: &mut Removed,
        chosen: &mut Vec<&'v Victim>,
        mut placement: Placement,
    ) -> Placement {
        let wanted: BTreeSet<usize> = placement.iter().map(|(_, node)| *node).collect();
        let is_in_the_way =
            |victim: &&Victim| removed.pods(victim).iter().any(|pod| wanted.contains(&removed.taken[pod].node));
        let (needed, bystanders): (Vec<&'v Victim>, Vec<&'v Victim>) = chosen.iter().copied().partition(is_in_the_way);
        bystanders.iter().for_each(|victim| self.restore(removed, victim));
        if let Some(found) = self.fits_in_future(asks) {
            placement = found;
            *chosen = needed;
        } else {
            bystanders.iter().for_each(|victim| self.remove(removed, victim));
        }
        for index in (0..chosen.len()).rev().take(SPARED_MAX) {
            let victim = chosen[index];
            self.restore(removed, victim);
            if let Some(found) = self.fits_in_future(asks) {
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
