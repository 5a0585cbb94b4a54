//! Queues: opens and closes them as commands say, lets those below follow, and keeps them while something is in them.
//!
//! [`plan`] decides; this file observes and writes. What queues share out is the scheduler's business.

pub mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::SignedDuration;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use ronde_api::{
    Command, Job, PodGroup, PodGroupPhase, Queue, QueueState, TrainingJob, names,
    rules::{self, Queues, occupants::in_queue},
};
use ronde_runtime::{
    pods::apply,
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};
use serde_json::{Value, json};

use self::plan::{IN_USE, ObservedQueue, QueueStep, plan};
use crate::commands::{is_for, put_in_order};

/// The controller of queues.
#[derive(Debug, Default)]
pub struct VcQueues;

impl Controller for VcQueues {
    const NAME: &'static str = "vc-queue-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Queue>().add::<PodGroup>().add::<Job>().add::<TrainingJob>().add::<Command>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<Queue>() {
            let below = caches.list::<Queue>(None).into_iter();
            let below = below.filter(|queue| queue.spec.parent == change.key.name).map(|queue| Key::of(&*queue));
            below.chain([change.key.clone()]).collect()
        } else if change.is::<PodGroup>() {
            waiting(caches).into_iter().chain(unheld(change, caches)).collect()
        } else if change.is::<Job>() || change.is::<TrainingJob>() {
            waiting(caches)
        } else {
            let command = caches.get::<Command>(&change.key);
            command.and_then(|command| target_of(&command)).into_iter().collect()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let queue = ctx.caches.get::<Queue>(key);
        let is_aimed = |command: &Arc<Command>| queue.as_ref().is_some_and(|queue| is_for(command, &**queue));
        let (commands, aimless): (Vec<_>, Vec<_>) = commands_for(&ctx.caches, key).into_iter().partition(is_aimed);
        delete_orphaned_commands(ctx, key, &aimless).await?;
        let Some(queue) = queue else { return Ok(None) };
        let seen = observe(&ctx.caches, &queue, commands.first());
        for step in plan(&seen) {
            apply_step(ctx, &queue, &step).await?;
        }
        if let Some(command) = commands.first() {
            apply::remove(ctx, &**command).await?;
        }
        // The others have their turn with the next look.
        Ok((commands.len() > 1).then_some(SignedDuration::ZERO))
    }
}

/// Returns the queues that wait until nothing is in them. What has gone does not say where it was; these are few.
fn waiting(caches: &Caches) -> Vec<Key> {
    let mut queues = caches.list::<Queue>(None);
    queues.retain(|queue| state(queue) == QueueState::Closing || queue.metadata.deletion_timestamp.is_some());
    queues.iter().map(|queue| Key::of(&**queue)).collect()
}

/// Returns the queue of a group, if nothing keeps it from being deleted yet.
fn unheld(change: &Change, caches: &Caches) -> Option<Key> {
    let group = caches.get::<PodGroup>(&change.key)?;
    let queue = caches.get::<Queue>(&Key::new("", queue_of(&group)))?;
    let is_held = queue.finalizers().iter().any(|finalizer| finalizer == IN_USE);
    (!is_held).then(|| Key::of(&*queue))
}

fn queue_of(group: &PodGroup) -> &str {
    if group.spec.queue.is_empty() { names::DEFAULT_QUEUE } else { &group.spec.queue }
}

/// Returns what is in a queue, in words.
fn occupants(caches: &Caches, queue: &str) -> Vec<String> {
    let mut all = in_queue(queue, caches.list::<Job>(None).iter().map(|job| &**job));
    all.extend(in_queue(queue, caches.list::<TrainingJob>(None).iter().map(|job| &**job)));
    all.extend(in_queue(queue, caches.list::<PodGroup>(None).iter().map(|group| &**group)));
    all
}

/// Returns the queue that a command is for.
fn target_of(command: &Command) -> Option<Key> {
    let target = command.target.as_ref()?;
    let is_queue = target.kind == "Queue" && target.api_version.starts_with("scheduling.volcano.sh/");
    is_queue.then(|| Key::new("", &target.name))
}

/// Returns the commands for a queue in all namespaces, the oldest first.
fn commands_for(caches: &Caches, key: &Key) -> Vec<Arc<Command>> {
    let mut commands = caches.list::<Command>(None);
    commands.retain(|command| target_of(command).as_ref() == Some(key));
    put_in_order(&mut commands);
    commands
}

/// Deletes commands for a queue that is not there. The server is asked: the caches may be of different times.
async fn delete_orphaned_commands(ctx: &Ctx, key: &Key, commands: &[Arc<Command>]) -> Result<(), kube::Error> {
    if commands.is_empty() {
        return Ok(());
    }
    let queue = api(ctx).get_opt(&key.name).await?;
    for command in commands.iter().filter(|command| queue.as_ref().is_none_or(|queue| !is_for(command, queue))) {
        apply::remove(ctx, &**command).await?;
    }
    Ok(())
}

fn api(ctx: &Ctx) -> Api<Queue> {
    Api::all(ctx.client.clone())
}

/// Returns the state of a queue; one that nobody has looked at is open.
fn state(queue: &Queue) -> QueueState {
    queue.status.as_ref().and_then(|status| status.state).unwrap_or(QueueState::Open)
}

fn observe<'a>(caches: &Caches, queue: &'a Queue, command: Option<&Arc<Command>>) -> ObservedQueue<'a> {
    let name = queue.name_any();
    let parent = caches.get::<Queue>(&Key::new("", &queue.spec.parent));
    let is_inside = |group: &Arc<PodGroup>| queue_of(group) == name && group.phase() != Some(PodGroupPhase::Completed);
    let is_deleted = queue.metadata.deletion_timestamp.is_some();
    ObservedQueue {
        queue,
        is_parent_open: parent.is_none_or(|parent| state(&parent) == QueueState::Open),
        faults: faults(caches, queue),
        occupants: if is_deleted { occupants(caches, &name) } else { Vec::new() },
        has_groups: caches.list::<PodGroup>(None).iter().any(is_inside),
        command: command.map(|command| command.action.clone()),
    }
}

/// Returns what is wrong with a queue among the others. Admission would have refused it; nothing else does on a cluster.
fn faults(caches: &Caches, queue: &Queue) -> Vec<String> {
    let mut queue = queue.clone();
    rules::queue::default(&mut queue);
    let all: Queues = caches.list::<Queue>(None).iter().map(|queue| Queue::clone(queue)).collect();
    rules::queue::validate(&queue, &all).iter().map(ToString::to_string).collect()
}

async fn apply_step(ctx: &Ctx, queue: &Queue, step: &QueueStep) -> Result<(), kube::Error> {
    match step {
        QueueStep::Join(parent) => patch(ctx, queue, &json!({"spec": {"parent": parent}})).await,
        QueueStep::Mark(is_marked) => {
            let mark = is_marked.then_some("true");
            patch(ctx, queue, &json!({"metadata": {"annotations": {names::CLOSED_BY_PARENT: mark}}})).await
        }
        QueueStep::State(state) => patch_status(ctx, queue, &json!({"state": state})).await,
        QueueStep::Message(message) => {
            let message = Some(message).filter(|message| !message.is_empty());
            patch_status(ctx, queue, &json!({"message": message})).await
        }
        QueueStep::Hold => set_finalizers(ctx, queue, |finalizers| finalizers.push(IN_USE.to_owned())).await,
        QueueStep::Release => set_finalizers(ctx, queue, |finalizers| finalizers.retain(|it| it != IN_USE)).await,
        QueueStep::Warn { reason, message } => {
            ctx.events.warning(queue, reason, message);
            Ok(())
        }
    }
}

/// With the version that was looked at: others have finalizers too.
async fn set_finalizers(ctx: &Ctx, queue: &Queue, change: impl Fn(&mut Vec<String>)) -> Result<(), kube::Error> {
    let newest = ctx.caches.get::<Queue>(&Key::of(queue)).filter(|newest| newest.uid() == queue.uid());
    let Some(newest) = newest else { return Ok(()) };
    let mut finalizers = newest.finalizers().to_vec();
    change(&mut finalizers);
    let meta = json!({"resourceVersion": newest.resource_version(), "finalizers": finalizers});
    patch(ctx, &newest, &json!({"metadata": meta})).await
}

async fn patch_status(ctx: &Ctx, queue: &Queue, status: &Value) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({"status": status}));
    let written = api(ctx).patch_status(&queue.name_any(), &PatchParams::default(), &patch).await?;
    ctx.caches.assume(written);
    Ok(())
}

async fn patch(ctx: &Ctx, queue: &Queue, patch: &Value) -> Result<(), kube::Error> {
    let written = api(ctx).patch(&queue.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    ctx.caches.assume(written);
    Ok(())
}
