//! One cycle: from the state of the cluster to a plan. [`run`] is the table of contents.
//!
//! The minimum of everybody is placed before the surplus of anybody. A gang that finds no room may make some
//! ([`preempt`]) or, having waited long enough, have some held ([`room`]); others respect what is held.

pub mod admit;
pub mod census;
pub mod explain;
pub mod gang;
pub mod jobs;
pub mod ledger;
pub mod lines;
pub mod moves;
pub mod patience;
pub mod place;
pub mod preempt;
pub mod room;
pub mod rules;
pub mod surplus;
pub mod topology;
pub mod victims;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use self::{
    gang::Gang,
    jobs::Full,
    ledger::{Asker, Exceeded, Ledger},
    lines::Lines,
    patience::NotYet,
    place::{Miss, Placement},
    room::Asks,
};
use crate::{
    cluster::{Cluster, nodes::Mode, table::Row, view::View},
    model::{
        ids::{GroupId, Time},
        queue::{Dequeue, QueueState},
    },
    plan::{Eviction, Plan, Step},
};

/// Heaps of views that are kept for the next cycle; the others are made again when they are needed.
const HEAPS_MAX: usize = 32;
/// Views that are kept at all: about 16 bytes for every node each.
const VIEWS_MAX: usize = 512;

/// Why a group waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    QueueMissing,
    QueueNotLeaf,
    QueueClosed,
    QueueLimit(Exceeded),
    /// As many jobs run as may.
    QueueFull(Full),
    Behind(GroupId),
    /// Its pods are not created before there is room for its minimum.
    NotAdmitted,
    /// Room is being made by pods that leave.
    Coming,
    /// Room is held for it until those who run there end.
    Held,
    Miss(Miss),
}

/// Decides what to do now.
pub fn run(cluster: &mut Cluster, now: Time) -> Plan {
    cluster.nodes.rank();
    cluster.cycles += 1;
    let mut cycle = Cycle::new(cluster, now);
    // 1. look at who waits
    let todo = cycle.sort_out();
    // 2. let groups into their queues
    cycle.admit(&todo.unadmitted);
    // 3. keep room for those who have it promised
    let lines = cycle.line_up(&todo.gangs);
    cycle.hold_promises(&lines);
    // 4. place gangs, whole or not at all
    cycle.place_gangs(lines);
    // 5. place what is above the minimum
    cycle.place_surplus(todo.surplus);
    // 6. tell why the others wait
    cycle.explain();
    // 7. forget what the next cycle can do without
    cycle.tidy();
    cycle.plan
}

/// Groups by what they need.
#[derive(Debug, Default)]
struct Todo {
    unadmitted: Vec<usize>,
    gangs: Vec<(usize, usize)>,
    surplus: Vec<(usize, usize)>,
}

pub struct Cycle<'a> {
    cluster: &'a mut Cluster,
    now: Time,
    ledger: Ledger,
    plan: Plan,
    waits: Vec<(usize, Wait)>,
    /// What admitted groups will take whose pods are still to come, by queue and together; only while groups are admitted.
    expected: Vec<(usize, Vec<(usize, i64)>)>,
    incoming: Row,
    /// The queues of those of them that do not run in part already.
    coming_jobs: Vec<usize>,
    /// Groups that became whole and have more pods.
    completed: Vec<(usize, usize)>,
    /// Queues in which nobody may pass a group that waits.
    blocked: BTreeSet<usize>,
    /// Queues with a group that room is held for.
    holders: BTreeSet<usize>,
    /// Attempts to push others out that failed in this cycle.
    hopeless: Vec<preempt::Attempt>,
    /// Groups that may push others out later.
    not_yet: BTreeMap<usize, NotYet>,
}

impl<'a> Cycle<'a> {
    fn new(cluster: &'a mut Cluster, now: Time) -> Self {
        let ledger = Ledger::new(cluster);
        Self {
            cluster,
            now,
            ledger,
            plan: Plan::default(),
            waits: Vec::new(),
            expected: Vec::new(),
            incoming: Row::default(),
            coming_jobs: Vec::new(),
            completed: Vec::new(),
            blocked: BTreeSet::new(),
            holders: BTreeSet::new(),
            hopeless: Vec::new(),
            not_yet: BTreeMap::new(),
        }
    }

    fn sort_out(&mut self) -> Todo {
        let mut todo = Todo::default();
        for slot in self.cluster.groups.open() {
            let state = self.cluster.groups.get(slot);
            if state.admitted().is_none() && state.pods.is_empty() {
                todo.unadmitted.push(slot);
                continue;
            }
            match self.account(slot) {
                Err(wait) => {
                    self.drop_claims(slot);
                    self.waits.push((slot, wait));
                }
                Ok(account) => {
                    self.admit_at_once(slot);
                    let is_whole = self.cluster.gang(slot).is_none_or(|gang| gang.needs.are_met());
                    if is_whole {
                        self.drop_claims(slot);
                        todo.surplus.push((account, slot));
                    } else {
                        todo.gangs.push((account, slot));
                    }
                }
            }
        }
        todo
    }

    /// Returns the queue of a group, if it may run there.
    fn account(&self, slot: usize) -> Result<usize, Wait> {
        let state = self.cluster.groups.get(slot);
        let group = state.group.as_ref().ok_or(Wait::QueueMissing)?;
        let account = self.ledger.find(&group.queue).ok_or(Wait::QueueMissing)?;
        if account == 0 || !self.ledger.accounts[account].children.is_empty() {
            return Err(Wait::QueueNotLeaf);
        }
        let is_open = |index: &usize| self.ledger.accounts[*index].queue.state == QueueState::Open;
        let has_begun = group.started || state.bound > 0;
        if !has_begun && !self.ledger.path(account).iter().all(is_open) {
            return Err(Wait::QueueClosed);
        }
        Ok(account)
    }

    fn line_up(&self, gangs: &[(usize, usize)]) -> Lines {
        let mut lines = Lines::new(&self.ledger, true);
        gangs.iter().for_each(|(account, slot)| lines.join(self.cluster, &self.ledger, *account, *slot));
        lines
    }

    fn place_gangs(&mut self, mut lines: Lines) {
        while let Some((account, slot)) = lines.next_group(&self.ledger) {
            let Err(wait) = self.place_gang(account, slot) else { continue };
            let is_strict = self.ledger.accounts[account].queue.dequeue == Dequeue::Fifo;
            // Who lacks pods of its own does not keep others waiting.
            if is_strict && !matches!(wait, Wait::Miss(Miss::Lacking(_))) {
                self.blocked.insert(account);
                let ahead = self.cluster.groups.get(slot).id.clone();
                let behind = lines.clear(&self.ledger, account);
                for other in behind {
                    let wait = Wait::Behind(ahead.clone());
                    self.finish_or_undo(account, other, &wait);
                    self.waits.push((other, wait));
                }
            }
            if !matches!(wait, Wait::Coming | Wait::Held) {
                self.drop_claims(slot);
            }
            // Limits are held for it only while they are what it waits for.
            if matches!(wait, Wait::Miss(_) | Wait::QueueFull(_)) {
                self.ledger.release(&self.cluster.groups.get(slot).id);
            }
            self.finish_or_undo(account, slot, &wait);
            self.waits.push((slot, wait));
        }
    }

    fn place_gang(&mut self, account: usize, slot: usize) -> Result<(), Wait> {
        let Some(gang) = self.cluster.gang(slot) else { return Err(Wait::QueueMissing) };
        if let Some(lacking) = &gang.lacking {
            return Err(Wait::Miss(Miss::Lacking(lacking.clone())));
        }
        if let Some(full) = self.full(account, slot) {
            return Err(Wait::QueueFull(full));
        }
        let request = minimum_request(self.cluster, &gang);
        if let Some(exceeded) = self.exceeded(account, slot, &request, true) {
            let asks = Asks { account, slot, gang: &gang, limited_by: self.ledger.find(&exceeded.queue) };
            return Err(self.make_room(&asks).unwrap_or(Wait::QueueLimit(exceeded)));
        }
        let tried = match self.try_promised(slot, &gang) {
            Some(placement) => Ok(placement),
            None => place::try_gang(self.cluster, slot, &gang, Mode::Now),
        };
        match tried {
            Ok(placement) => self.commit_gang(account, slot, placement),
            Err(miss @ (Miss::Room { .. } | Miss::Topology { .. })) => {
                let asks = Asks { account, slot, gang: &gang, limited_by: None };
                Err(self.make_room(&asks).unwrap_or(Wait::Miss(miss)))
            }
            Err(miss) => Err(Wait::Miss(miss)),
        }
    }

    fn commit_gang(&mut self, account: usize, slot: usize, placement: Placement) -> Result<(), Wait> {
        let request = request_of(self.cluster, placement.iter().map(|(pod, _)| pod));
        if let Some(exceeded) = self.exceeded(account, slot, &request, true) {
            place::take_back(self.cluster, &placement);
            return Err(Wait::QueueLimit(exceeded));
        }
        self.commit(account, slot, &placement);
        let state = self.cluster.groups.get_mut(slot);
        state.told = None;
        state.noticed = None;
        self.plan.ready.push(state.id.clone());
        if state.pending > 0 {
            self.completed.push((account, slot));
        }
        Ok(())
    }

    /// Turns a trial into steps.
    fn commit(&mut self, account: usize, slot: usize, placement: &[(usize, usize)]) {
        place::keep(self.cluster, placement);
        let request = request_of(self.cluster, placement.iter().map(|(pod, _)| pod));
        self.ledger.allocate(account, &request, 1);
        for (pod, node) in placement {
            self.cluster.unclaim(*pod);
            let (pod, node) = (self.cluster.pods.id(*pod).clone(), self.cluster.nodes.name(*node).clone());
            self.plan.steps.push(Step::Bind { pod, node });
        }
        self.drop_claims(slot);
        self.ledger.release(&self.cluster.groups.get(slot).id);
        self.cluster.reopen(slot);
    }

    fn exceeded(
        &self,
        account: usize,
        slot: usize,
        request: &[(usize, i64)],
        counts_leaving: bool,
    ) -> Option<Exceeded> {
        let state = self.cluster.groups.get(slot);
        let asker = Asker { group: &state.id, priority: state.priority(), counts_leaving };
        self.ledger.exceeded(account, request, &asker)
    }

    /// Gives up a gang of which only a part is there, at once if it never ran, otherwise after a while.
    fn finish_or_undo(&mut self, account: usize, slot: usize, wait: &Wait) {
        if self.cluster.groups.get(slot).bound == 0 {
            return;
        }
        let until = self.incomplete_until(slot);
        // Pods or room are on their way.
        if matches!(wait, Wait::Coming | Wait::Miss(Miss::Lacking(_))) && self.now < until {
            self.look_again(until);
            return;
        }
        if !self.is_to_be_undone(slot) {
            return;
        }
        self.drop_claims(slot);
        let pods = self.cluster.groups.get(slot).pods.clone();
        for pod in pods {
            let state = self.cluster.pods.get(pod);
            if state.takes_room() && !state.is_leaving() {
                self.evict(account, pod, Eviction::Incomplete);
            }
        }
    }

    /// Tells whether half a gang has no more time to become whole.
    fn is_to_be_undone(&mut self, slot: usize) -> bool {
        let state = self.cluster.groups.get(slot);
        if state.bound == 0 {
            return false;
        }
        let has_started = state.group.as_ref().is_some_and(|group| group.started);
        let until = self.incomplete_until(slot);
        if has_started && self.now < until {
            self.look_again(until);
        }
        !has_started || self.now >= until
    }

    fn incomplete_until(&self, slot: usize) -> Time {
        let since = self.cluster.groups.get(slot).waiting_since().unwrap_or(self.now);
        since.plus_millis(self.cluster.policy.incomplete_ms)
    }

    fn evict(&mut self, account: usize, pod: usize, why: Eviction) {
        let class = self.cluster.pods.get(pod).class;
        self.ledger.leave(account, &self.cluster.classes.get(class).request, 1);
        self.cluster.set_evicted(pod, true);
        self.plan.steps.push(Step::Evict { pod: self.cluster.pods.id(pod).clone(), why });
    }

    fn look_again(&mut self, at: Time) {
        self.plan.look_again = Some(self.plan.look_again.map_or(at, |other| other.min(at)));
    }

    fn tidy(&mut self) {
        self.cluster.open_capacities.clear();
        let views = &mut self.cluster.views;
        let mut ages: Vec<u64> = views.values().map(|view| view.used_at).collect();
        ages.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(oldest) = ages.get(HEAPS_MAX) {
            views.values_mut().filter(|view| view.used_at <= *oldest).for_each(View::drop_heap);
        }
        if let Some(oldest) = ages.get(VIEWS_MAX) {
            views.retain(|_, view| view.used_at > *oldest);
        }
    }
}

impl Cluster {
    /// Returns what a group needs to be whole.
    pub fn gang(&mut self, slot: usize) -> Option<Arc<Gang>> {
        if let Some(gang) = &self.groups.get(slot).gang {
            return Some(gang.clone());
        }
        self.groups.get_mut(slot).sort(&self.pods);
        let gang = Arc::new(Gang::of_group(self, slot)?);
        self.groups.get_mut(slot).gang = Some(gang.clone());
        Some(gang)
    }
}

/// Returns what the pods take together that come first for the minimum.
fn minimum_request(cluster: &Cluster, gang: &Gang) -> Vec<(usize, i64)> {
    let mut needs = gang.needs.clone();
    let needed = gang.bundles.iter().take_while(|bundle| {
        let is_needed = !needs.are_met();
        needs.meet(bundle, cluster);
        is_needed
    });
    request_of(cluster, needed.flat_map(|bundle| &bundle.pods))
}

/// Returns what pods take together.
fn request_of<'a>(cluster: &Cluster, pods: impl Iterator<Item = &'a usize>) -> Vec<(usize, i64)> {
    let mut row = Row::default();
    pods.for_each(|pod| row.add_request(&cluster.classes.get(cluster.pods.get(*pod).class).request, 1));
    row.positive()
}
