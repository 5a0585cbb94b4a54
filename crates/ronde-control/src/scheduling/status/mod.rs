//! Tells users how groups, pods and queues are: [`groups`], [`pods`] and [`queues`] decide, this file writes.
//!
//! Only what differs is written. A sentence that only has other numbers is written again after a while, longer for larger
//! groups, so that many that wait do not keep the API busy; a turn writes a bounded number and leaves the rest to the next.

pub mod groups;
pub mod pods;
pub mod queues;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use ronde_api::{PodGroup, PodGroupConditionType as Kind, PodGroupStatus, Queue};
use ronde_runtime::{
    causes::Causes,
    pods::apply::api,
    podstatus,
    runner::{Ctx, in_time},
    watch::Key,
};
use ronde_scheduler::{GroupId, QueueName, QueueUsage};
use serde_json::{Value, json};

use super::{apply, state::State};

/// How many requests are under way at once.
const WRITES_MAX: usize = 16;
/// How many writes a turn does at most: about 50 ms of requests.
const TURN_MAX: usize = 256;
/// How long a sentence stays as it is while only its numbers change: at least, and for each pod of the group.
const WORDING_LEAST: SignedDuration = SignedDuration::from_secs(5);
const WORDING_PER_POD: SignedDuration = SignedDuration::from_millis(100);
/// How often the pods of a group are counted anew while nothing else changes.
const RECOUNT_EVERY: SignedDuration = SignedDuration::from_millis(500);
/// How often the use of queues is written at most.
const QUEUES_EVERY: SignedDuration = SignedDuration::from_secs(1);
/// How many of them are written each time: with a thousand queues, pods would otherwise wait for a second of such writes.
const QUEUES_MAX: usize = 64;

/// Something to be written.
enum Write {
    Group(Arc<PodGroup>, PodGroupStatus),
    Pod(Arc<Pod>, PodCondition),
}

/// What is to be written about a group and its pods.
#[derive(Default)]
struct Writes {
    news: Vec<Write>,
    /// Only the numbers of pods are others.
    recounts: Vec<Write>,
    /// Only the numbers of a sentence are others.
    rewordings: Vec<Write>,
    /// When to look again.
    later: Option<Timestamp>,
}

/// Writes what is not as it should be; returns whether all went well.
pub async fn write_stale(ctx: &Ctx, state: &mut State) -> bool {
    let now = ctx.clock.now();
    state.wake(now);
    let mut writes = Vec::new();
    while writes.len() < TURN_MAX
        && let Some(id) = state.stale.pop_first()
    {
        let wanted = writes_now(ctx, state, &id, now);
        let room = TURN_MAX - writes.len();
        if wanted.len() > room {
            state.stale.insert(id.clone());
        }
        writes.extend(wanted.into_iter().take(room).map(|write| (id.clone(), write)));
    }
    let written = stream::iter(writes).map(async |(id, write)| (id, carry_out(ctx, write).await));
    let written: Vec<_> = written.buffer_unordered(WRITES_MAX).collect().await;
    let failed: Vec<GroupId> = written.into_iter().filter(|(_, is_done)| !is_done).map(|(id, _)| id).collect();
    let went_well = failed.is_empty();
    state.stale.extend(failed);
    went_well
}

/// Returns what is to be written about a group now, and notes when to look at the rest.
fn writes_now(ctx: &Ctx, state: &mut State, id: &GroupId, now: Timestamp) -> Vec<Write> {
    let members = state.pods(&ctx.caches, id);
    let Writes { mut news, recounts, rewordings, mut later } = writes(ctx, state, id, &members, now);
    let pods = i32::try_from(members.len()).unwrap_or(i32::MAX);
    let pause = WORDING_LEAST.max(WORDING_PER_POD.saturating_mul(pods));
    let last = state.worded.get(id).copied();
    for (mut list, pause) in [(recounts, RECOUNT_EVERY), (rewordings, pause)] {
        match last.map(|last| last + pause).filter(|next| *next > now && !list.is_empty()) {
            Some(next) => later = later.into_iter().chain([next]).min(),
            None => news.append(&mut list),
        }
    }
    if let Some(later) = later {
        state.later.insert(id.clone(), later);
    }
    if !news.is_empty() {
        state.worded.insert(id.clone(), now);
    }
    news
}

fn writes(ctx: &Ctx, state: &State, id: &GroupId, members: &[Arc<Pod>], now: Timestamp) -> Writes {
    let mut writes = Writes::default();
    let group = ctx.caches.get::<PodGroup>(&Key::new(id.namespace(), id.name()));
    let wait = state.wait(id, now);
    writes.later = state.wait_later(id, now);
    if let Some(group) = &group {
        let next = groups::next_status(&groups::GroupFacts { group, pods: members, wait, is_admitted: false, now });
        let list = if groups::is_recount(group, &next) {
            &mut writes.recounts
        } else if groups::is_rewording(group, &next) {
            &mut writes.rewordings
        } else {
            &mut writes.news
        };
        if group.status.as_ref() != Some(&next) {
            list.push(Write::Group(group.clone(), next));
        }
    }
    let is_limited = state.is_limited(id);
    let seen = pods::PodFacts { group: group.as_deref(), pods: members, wait, is_limited, now };
    for pod in members.iter().filter(|pod| state.is_pending(pod)) {
        let Some(why) = pods::why(&seen, pod) else {
            writes.later = writes.later.max(pods::group_overdue_at(pod).filter(|at| *at > now));
            continue;
        };
        let condition = pods::waiting(pod, &why, now);
        let list = if pods::is_told(pod, &condition) { &mut writes.rewordings } else { &mut writes.news };
        if !podstatus::has_condition(pod, &condition) {
            list.push(Write::Pod(pod.clone(), condition));
        }
    }
    writes
}

/// Returns whether it is written, or need not be any more.
async fn carry_out(ctx: &Ctx, write: Write) -> bool {
    let written = match write {
        Write::Group(group, status) => in_time(write_group(ctx, &group, &status)).await,
        Write::Pod(pod, condition) => in_time(write_pod(ctx, &pod, condition)).await,
    };
    match written {
        Ok(()) => true,
        // It is gone, or another by now; the watch will tell.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => true,
        Err(error) => {
            tracing::warn!(error = %Causes(&error), "cannot write a status");
            false
        }
    }
}

/// Writes the status of this very group, with the events that belong to it.
pub async fn write_group(ctx: &Ctx, group: &PodGroup, status: &PodGroupStatus) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({"metadata": {"uid": group.metadata.uid}, "status": status}));
    let groups = api::<PodGroup>(ctx, &group.namespace().unwrap_or_default());
    let written = groups.patch(&group.name_any(), &PatchParams::default(), &patch).await?;
    ctx.caches.assume(written);
    let news = status.conditions.iter().filter(|condition| condition.status == "True");
    for condition in news.filter(|condition| !groups::has_condition(group, condition)) {
        match condition.type_ {
            Kind::Unschedulable => ctx.events.warning(group, "Unschedulable", &*condition.message),
            Kind::Scheduled => ctx.events.normal(group, "Scheduled", "pod group is ready"),
        }
    }
    Ok(())
}

async fn write_pod(ctx: &Ctx, pod: &Pod, condition: PodCondition) -> Result<(), kube::Error> {
    let why = condition.message.clone().unwrap_or_default();
    podstatus::write(ctx, pod, &[condition], None).await?;
    apply::events(ctx, pod).warning(pod, "FailedScheduling", why);
    Ok(())
}

/// Writes what queues use, if it is time; returns whether all went well.
pub async fn write_queues(ctx: &Ctx, state: &mut State) -> bool {
    let now = ctx.clock.now();
    if state.queues_due.is_none_or(|due| due > now) {
        return true;
    }
    state.queues_due = None;
    state.queues_told = Some(now);
    let (changes, last) = queues::take_turns(queue_changes(ctx, state), state.queue_told.as_ref(), QUEUES_MAX);
    let has_more = last.is_some();
    state.queue_told = last;
    let written = stream::iter(changes).map(async |(name, change)| write_queue(ctx, &name, change).await);
    let went_well = written.buffer_unordered(WRITES_MAX).fold(true, async |well, is_done| well && is_done).await;
    if has_more || !went_well {
        state.queues_due = Some(now + QUEUES_EVERY);
    }
    went_well
}

/// Returns what is to be written about queues, in the order of their names.
fn queue_changes(ctx: &Ctx, state: &State) -> Vec<(QueueName, Value)> {
    let change = |(name, usage): (QueueName, QueueUsage)| {
        let queue = ctx.caches.get::<Queue>(&Key::new("", name.as_str()))?;
        queues::change(&queue, &usage.allocated).map(|change| (name, change))
    };
    let mut changes: Vec<_> = state.cluster.queues().into_iter().filter_map(change).collect();
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    changes
}

async fn write_queue(ctx: &Ctx, name: &QueueName, change: Value) -> bool {
    let queues: Api<Queue> = Api::all(ctx.client.clone());
    let (params, patch) = (PatchParams::default(), Patch::Merge(change));
    match in_time(queues.patch_status(name.as_str(), &params, &patch)).await {
        Ok(written) => ctx.caches.assume(written),
        Err(error) => {
            tracing::debug!(error = %Causes(&error), queue = %name, "cannot write what a queue uses");
            return false;
        }
    }
    true
}

/// Notes that queues may use something else now.
pub fn mark_queue_usage_stale(state: &mut State, now: Timestamp) {
    let next = state.queues_told.map_or(now, |told| now.max(told + QUEUES_EVERY));
    state.queues_due = Some(state.queues_due.map_or(next, |due| due.min(next)));
}

/// Returns when something has to be written even if nothing changes.
pub fn next_due(state: &State) -> Option<Timestamp> {
    state.later.values().copied().chain(state.queues_due).min()
}
