//! The status that a group should have. Pure.
//!
//! ```text
//!            admitted           minimum has nodes           all ended
//! Pending ──────────▶ Inqueue ─────────────────▶ Running ────────────▶ Completed
//!    ▲                                            │   ▲
//!    │ nothing runs, and less than the minimum    ▼   │ whole again
//!    └──────────────────────────────────────── Unknown: some run, and the others find no room
//! ```

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use ronde_api::{PodGroup, PodGroupCondition, PodGroupConditionType as Kind, PodGroupPhase, PodGroupStatus, names};
use ronde_runtime::{
    pods::{is_deleted, is_finished, phase, time},
    podstatus::node_of,
};
use ronde_scheduler::Waiting;

use crate::scheduling::state::lacks_pods;

/// The reason that users of Volcano know.
const READY: &str = "tasks in gang are ready to be scheduled";
const ADMITTED: &str = "Admitted";

/// What the status follows from.
#[derive(Debug, Clone, Copy)]
pub struct GroupFacts<'a> {
    pub group: &'a PodGroup,
    pub pods: &'a [Arc<Pod>],
    /// Why it waits, if it does.
    pub wait: Option<&'a Waiting>,
    /// It is let into its queue now.
    pub is_admitted: bool,
    pub now: Timestamp,
}

/// Returns the status that a group should have.
pub fn next_status(seen: &GroupFacts<'_>) -> PodGroupStatus {
    let tally = Tally::of_group(seen.group, seen.pods);
    let before = seen.group.status.clone().unwrap_or_default();
    PodGroupStatus {
        phase: Some(next_phase(seen, &tally)),
        conditions: next_conditions(seen, &tally, before.conditions),
        running: tally.running,
        succeeded: tally.succeeded,
        failed: tally.failed,
    }
}

/// Tells whether the minimum of a group has nodes.
pub fn is_whole(group: &PodGroup, pods: &[Arc<Pod>]) -> bool {
    Tally::of_group(group, pods).is_whole
}

/// Tells whether a group has a condition already, but for its time and the numbers in its sentence.
pub fn has_condition(group: &PodGroup, wanted: &PodGroupCondition) -> bool {
    let mut conditions = group.status.iter().flat_map(|status| &status.conditions);
    conditions
        .any(|known| known.type_ == wanted.type_ && known.status == wanted.status && known.reason == wanted.reason)
}

/// Tells whether a status differs from that of the group only by the sentences of its conditions.
pub fn is_rewording(group: &PodGroup, next: &PodGroupStatus) -> bool {
    let Some(before) = &group.status else { return false };
    let counts = |status: &PodGroupStatus| (status.phase, status.running, status.succeeded, status.failed);
    counts(before) == counts(next)
        && before.conditions.len() == next.conditions.len()
        && next.conditions.iter().all(|condition| has_condition(group, condition))
}

/// Tells whether a status differs from that of the group by its numbers alone.
pub fn is_recount(group: &PodGroup, next: &PodGroupStatus) -> bool {
    let before = group.status.as_ref();
    before.is_some_and(|before| before.phase == next.phase && before.conditions == next.conditions)
}

/// The pods of a group, counted.
#[derive(Debug, Default)]
struct Tally {
    running: i32,
    succeeded: i32,
    failed: i32,
    /// On nodes and not at their end.
    alive: i32,
    unfinished: i32,
    is_whole: bool,
}

impl Tally {
    fn of_group(group: &PodGroup, pods: &[Arc<Pod>]) -> Self {
        let mut tally = Self::default();
        let mut tasks: BTreeMap<&str, i32> = BTreeMap::new();
        for pod in pods {
            let is_finished = is_finished(pod);
            let is_scheduled = is_finished || !node_of(pod).is_empty();
            tally.running += i32::from(phase(pod) == "Running" && !is_deleted(pod));
            tally.succeeded += i32::from(phase(pod) == "Succeeded");
            tally.failed += i32::from(phase(pod) == "Failed");
            tally.alive += i32::from(is_scheduled && !is_finished);
            tally.unfinished += i32::from(!is_finished);
            let task = pod.annotations().get(names::TASK_SPEC).map_or("", String::as_str);
            *tasks.entry(task).or_default() += i32::from(is_scheduled);
        }
        let spec = &group.spec;
        let scheduled: i32 = tasks.values().sum();
        let least: i64 = spec.min_task_member.values().map(|least| i64::from(*least)).sum();
        let has_least =
            |(task, least): (&String, &i32)| tasks.get(task.as_str()).copied().unwrap_or_default() >= *least;
        // Minimums of tasks that add up to more than that of the group are not heeded.
        let has_tasks = least > i64::from(spec.min_member) || spec.min_task_member.iter().all(has_least);
        tally.is_whole = !pods.is_empty() && scheduled >= spec.min_member && has_tasks;
        tally
    }
}

fn next_phase(seen: &GroupFacts<'_>, tally: &Tally) -> PodGroupPhase {
    use PodGroupPhase::{Completed, Inqueue, Pending, Running, Unknown};
    let before = seen.group.phase();
    match before {
        _ if tally.is_whole && tally.unfinished == 0 => Completed,
        _ if tally.is_whole => Running,
        Some(Running | Unknown) if tally.running > 0 && seen.wait.is_some_and(|wait| !lacks_pods(wait)) => Unknown,
        Some(before @ (Running | Unknown)) if tally.alive > 0 => before,
        Some(Inqueue) => Inqueue,
        _ if seen.is_admitted => Inqueue,
        _ => Pending,
    }
}

fn next_conditions(seen: &GroupFacts<'_>, tally: &Tally, before: Vec<PodGroupCondition>) -> Vec<PodGroupCondition> {
    let mut conditions = Conditions { list: before, now: seen.now };
    if tally.is_whole {
        conditions.set(Kind::Scheduled, "True", READY, "");
        if conditions.has(Kind::Unschedulable) {
            conditions.set(Kind::Unschedulable, "False", READY, "");
        }
    } else if let Some(wait) = seen.wait {
        conditions.set(Kind::Unschedulable, "True", wait.reason.as_str(), &wait.message);
        if conditions.has(Kind::Scheduled) {
            conditions.set(Kind::Scheduled, "False", wait.reason.as_str(), "");
        }
    } else if seen.is_admitted {
        // Its time tells later since when room is kept for the pods that will come.
        conditions.set(Kind::Unschedulable, "False", ADMITTED, "");
    }
    conditions.list
}

struct Conditions {
    list: Vec<PodGroupCondition>,
    now: Timestamp,
}

impl Conditions {
    fn has(&self, kind: Kind) -> bool {
        self.list.iter().any(|condition| condition.type_ == kind)
    }

    /// Sets a condition; its time changes only with its status.
    fn set(&mut self, kind: Kind, status: &str, reason: &str, message: &str) {
        let before = self.list.iter().find(|condition| condition.type_ == kind && condition.status == status);
        let since = before.and_then(|before| before.last_transition_time.clone());
        let condition = PodGroupCondition {
            type_: kind,
            status: status.to_owned(),
            transition_id: String::new(),
            last_transition_time: since.or(Some(time(self.now))),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        match self.list.iter_mut().find(|condition| condition.type_ == kind) {
            Some(old) => *old = condition,
            None => self.list.push(condition),
        }
    }
}
