//! Who may have to go for a gang that finds no room, in the order in which they go.
//!
//! Pods above a gang's minimum first, each alone; then whole gangs. Those of low priority and young ones go first, and those
//! last whose going a budget of disruption does not allow. Victims are found as far as somebody asks for them: queues keep
//! their groups in this order. Cost: log(groups) for each victim, and for each that is passed over.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
};

use super::{Cycle, ledger::Asker, minimum_request, request_of, room::Asks};
use crate::{
    cluster::{
        sums::Turn,
        table::{PODS_ID, Row},
    },
    model::{budget::Budget, group::Group},
};

/// Pods that go together: one that is above the minimum of its group, or all of a group.
#[derive(Debug)]
pub struct Victim {
    pub account: usize,
    pub group: usize,
    pub spare: Option<usize>,
}

impl Victim {
    pub fn key(&self) -> (usize, Option<usize>) {
        (self.group, self.spare)
    }
}

/// Victims for one gang. Those that were handed out may be gone when the next is asked for.
#[derive(Default)]
pub struct Victims {
    /// The next group of each queue with pods above its minimum (`false`), and the next of all that may go whole (`true`).
    groups: BTreeSet<(bool, Turn, usize)>,
    /// Only groups that are less important than this.
    below: Option<i32>,
    /// What may be taken from other queues, if it is theirs.
    rights: Option<Rights>,
    /// Only pods that find room elsewhere may go, and no more than a budget allows.
    to_move: bool,
    /// Of the group that was looked at last.
    found: VecDeque<Victim>,
    /// Those whose going is more than a budget allows.
    last: VecDeque<Victim>,
    /// Pods above their minimum that were handed out.
    spares: BTreeSet<usize>,
    /// How many of each budget were handed out, by namespace and name.
    used: BTreeMap<(String, String), u32>,
    /// Hands out also those that have not run long enough.
    ignores_time: bool,
    /// Some were passed over because they have not run long enough.
    pub has_kept: bool,
    /// All that are left, if they have been put into another order.
    ordered: Option<VecDeque<Victim>>,
}

impl Victims {
    /// Finds less important gangs of the same queue.
    pub fn less_important(cycle: &Cycle<'_>, asks: &Asks<'_>) -> Self {
        let below = Some(cycle.cluster.groups.get(asks.slot).priority());
        let mut victims = Self { below, ..Self::default() };
        victims.line_up(cycle, asks.account);
        victims
    }

    /// Finds what other queues have above their part.
    pub fn above_their_part(cycle: &Cycle<'_>, asks: &Asks<'_>) -> Self {
        let rights = Rights::new(cycle, asks);
        let accounts: Vec<usize> = rights.levels.keys().copied().collect();
        let mut victims = Self { rights: Some(rights), ..Self::default() };
        accounts.into_iter().for_each(|account| victims.line_up(cycle, account));
        victims
    }

    /// Finds pods above the minimum of elastic groups that run whole, whosever they are.
    pub fn movable(cycle: &Cycle<'_>) -> Self {
        let mut victims = Self { to_move: true, ..Self::default() };
        for account in 1..cycle.ledger.accounts.len() {
            victims.advance(cycle, account, false, Bound::Unbounded);
        }
        victims
    }

    fn line_up(&mut self, cycle: &Cycle<'_>, account: usize) {
        [false, true].into_iter().for_each(|is_whole| self.advance(cycle, account, is_whole, Bound::Unbounded));
    }

    /// Notes the next group of a queue.
    fn advance(&mut self, cycle: &Cycle<'_>, account: usize, is_whole: bool, after: Bound<&Turn>) {
        let name = &cycle.ledger.accounts[account].queue.name;
        let Some(demand) = cycle.cluster.demand.get(name) else { return };
        let groups = if is_whole { &demand.running } else { &demand.with_surplus };
        let next = groups.range::<Turn, _>((after, Bound::Unbounded)).next();
        let next = next.filter(|turn| self.below.is_none_or(|below| turn.priority < below));
        self.groups.extend(next.map(|turn| (is_whole, turn.clone(), account)));
    }

    /// Hands out also those that have not run long enough, whoever may go first.
    pub fn by_time(mut self, cycle: &Cycle<'_>) -> Self {
        self.ignores_time = true;
        let mut all: Vec<Victim> = std::iter::from_fn(|| self.next(cycle)).collect();
        all.sort_by_cached_key(|victim| cycle.kept_until(victim));
        Self { ordered: Some(all.into()), ..self }
    }

    /// Returns the next victim.
    pub fn next(&mut self, cycle: &Cycle<'_>) -> Option<Victim> {
        if let Some(ordered) = &mut self.ordered {
            return ordered.pop_front();
        }
        while let Some(victim) = self.find(cycle) {
            let pods = self.pods(cycle, &victim);
            let budgets = budgets_of(cycle, &pods);
            if budgets.iter().any(|(id, (count, allowed))| self.used.get(id).unwrap_or(&0) + count > *allowed) {
                self.last.extend((!self.to_move).then_some(victim));
            } else if self.may_go(cycle, &victim, &pods) {
                budgets.into_iter().for_each(|(id, (count, _))| *self.used.entry(id).or_default() += count);
                return Some(victim);
            }
        }
        while let Some(victim) = self.last.pop_front() {
            let pods = self.pods(cycle, &victim);
            if self.may_go(cycle, &victim, &pods) {
                return Some(victim);
            }
        }
        None
    }

    /// Returns the next by their order alone.
    fn find(&mut self, cycle: &Cycle<'_>) -> Option<Victim> {
        while self.found.is_empty() {
            let (is_whole, turn, account) = self.groups.pop_first()?;
            // Nobody else of a queue that has no more than its part needs to be looked at.
            if self.rights.as_ref().is_some_and(|rights| rights.are_spent(cycle, account)) {
                continue;
            }
            self.advance(cycle, account, is_whole, Bound::Excluded(&turn));
            let group = turn.slot;
            let state = cycle.cluster.groups.get(group);
            if self.to_move && !cycle.is_movable(group) {
                continue;
            }
            if !is_whole {
                let spare = cycle.spare(group).into_iter();
                self.found.extend(spare.map(|pod| Victim { account, group, spare: Some(pod) }));
            } else if state.staying > 0 && state.fixed == 0 {
                self.found.push_back(Victim { account, group, spare: None });
            }
            if !self.ignores_time {
                let before = self.found.len();
                self.found.retain(|victim| cycle.kept_until(victim) <= cycle.now);
                self.has_kept |= self.found.len() < before;
            }
        }
        self.found.pop_front()
    }

    /// Returns the pods that go with a victim, without those that went before it.
    fn pods(&self, cycle: &Cycle<'_>, victim: &Victim) -> Vec<usize> {
        match victim.spare {
            Some(pod) => vec![pod],
            None => cycle.staying(victim.group).filter(|pod| !self.spares.contains(pod)).collect(),
        }
    }

    fn may_go(&mut self, cycle: &Cycle<'_>, victim: &Victim, pods: &[usize]) -> bool {
        let may_go = self.rights.as_mut().is_none_or(|rights| rights.take(cycle, victim.account, pods));
        if may_go {
            self.spares.extend(victim.spare);
        }
        may_go
    }
}

/// Returns how many of some pods each budget is for, and how many of its pods may go.
fn budgets_of(cycle: &Cycle<'_>, pods: &[usize]) -> BTreeMap<(String, String), (u32, u32)> {
    let mut wanted = BTreeMap::new();
    for pod in pods.iter().map(|pod| &cycle.cluster.pods.get(*pod).pod) {
        let of_namespace = cycle.cluster.budgets.get(pod.id.namespace()).into_iter().flat_map(BTreeMap::values);
        for budget in of_namespace.filter(|budget| budget.covers(&pod.labels)) {
            let Budget { namespace, name, allowed, .. } = budget;
            wanted.entry((namespace.clone(), name.clone())).or_insert((0, *allowed)).0 += 1;
        }
    }
    wanted
}

/// What a gang may take from other queues.
struct Rights {
    request: Vec<(usize, i64)>,
    /// The queues from each that may be taken from up to where its way to the root meets that of the asker.
    levels: BTreeMap<usize, Vec<usize>>,
    /// What those queues have beside what leaves and what is taken from them.
    left: BTreeMap<usize, Row>,
}

impl Rights {
    fn new(cycle: &Cycle<'_>, asks: &Asks<'_>) -> Self {
        let request = minimum_request(cycle.cluster, asks.gang);
        let mut rights = Self { request, levels: BTreeMap::new(), left: BTreeMap::new() };
        for other in 1..cycle.ledger.accounts.len() {
            let is_leaf = cycle.ledger.accounts[other].children.is_empty();
            let helps = asks.limited_by.is_none_or(|limit| cycle.ledger.path(other).contains(&limit));
            if is_leaf
                && helps
                && let Some(levels) = cycle.levels_to_take_from(asks, other, &rights.request)
            {
                for level in &levels {
                    let account = &cycle.ledger.accounts[*level];
                    let mut left = account.allocated.clone();
                    left.add_row(&account.leaving, -1);
                    rights.left.insert(*level, left);
                }
                rights.levels.insert(other, levels);
            }
        }
        rights
    }

    /// Tells whether a queue, or one above it, has no more than its part of everything that is asked.
    fn are_spent(&self, cycle: &Cycle<'_>, account: usize) -> bool {
        self.levels[&account].iter().any(|level| !self.is_above(cycle, *level, |_| true))
    }

    /// Takes pods from a queue, if it is above its part in something that is asked and that they have, and keeps what is
    /// guaranteed to it; and so those above it.
    fn take(&mut self, cycle: &Cycle<'_>, account: usize, pods: &[usize]) -> bool {
        let row = request_of(cycle.cluster, pods.iter());
        let has = |id: usize| row.iter().any(|(other, _)| *other == id);
        let keeps_guarantee = |level: usize| {
            let guarantee = |id: usize| cycle.ledger.accounts[level].guarantee(id);
            row.iter().all(|(id, amount)| self.left[&level].get(*id) - amount >= guarantee(*id))
        };
        let levels = &self.levels[&account];
        let may_go = levels.iter().all(|level| self.is_above(cycle, *level, has) && keeps_guarantee(*level));
        if may_go {
            levels.iter().for_each(|level| self.left.entry(*level).or_default().add_request(&row, -1));
        }
        may_go
    }

    /// Tells whether a queue is above its part in something that is asked and that `counts`.
    fn is_above(&self, cycle: &Cycle<'_>, level: usize, counts: impl Fn(usize) -> bool) -> bool {
        let deserved = &cycle.ledger.accounts[level].deserved;
        let mut asked = self.request.iter().map(|(id, _)| *id).filter(|id| *id != PODS_ID && counts(*id));
        asked.any(|id| self.left[&level].get(id) > deserved.get(id))
    }
}

impl Cycle<'_> {
    /// Returns the queues from another one up to where the ways to the root meet, if those of the asker on the way have
    /// no more than they deserve with what it asks, and the others may be taken from.
    fn levels_to_take_from(&self, asks: &Asks<'_>, other: usize, request: &[(usize, i64)]) -> Option<Vec<usize>> {
        let (own, theirs) = (self.ledger.path(asks.account), self.ledger.path(other));
        let state = self.cluster.groups.get(asks.slot);
        let asker = Asker { group: &state.id, priority: i32::MIN, counts_leaving: false };
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
        (deserves && is_reclaimable).then_some(levels)
    }

    /// Returns the pods of a group that have room and are not leaving.
    pub fn staying(&self, slot: usize) -> impl Iterator<Item = usize> {
        let pods = self.cluster.groups.get(slot).pods.iter().copied();
        pods.filter(|pod| self.cluster.pods.get(*pod).is_staying())
    }

    /// Returns the pods that a gang can lose and still have its minimum, the last first.
    fn spare(&self, slot: usize) -> Vec<usize> {
        let state = self.cluster.groups.get(slot);
        let goes_in_parts = |group: &&Group| group.subgroups.is_empty() && !group.leaves_whole;
        let Some(group) = state.group.as_ref().filter(goes_in_parts) else { return Vec::new() };
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
