//! Queues: opens and closes them as commands say, and lets those below follow.
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
use ronde_api::{Command, PodGroup, PodGroupPhase, Queue, QueueState, names};
use serde_json::{Value, json};

use self::plan::{Seen, Step, plan};
use crate::{
    commands::{is_for, put_in_order},
    pods::act,
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

/// The controller of queues.
#[derive(Debug, Default)]
pub struct VcQueues;

impl Controller for VcQueues {
    const NAME: &'static str = "vc-queue-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Queue>().add::<PodGroup>().add::<Command>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<Queue>() {
            let below = caches.list::<Queue>(None).into_iter();
            let below = below.filter(|queue| queue.spec.parent == change.key.name).map(|queue| Key::of(&*queue));
            below.chain([change.key.clone()]).collect()
        } else if change.is::<PodGroup>() {
            // A group that has gone does not say where it was; few queues wait for one to go.
            let queues = caches.list::<Queue>(None).into_iter();
            queues.filter(|queue| state(queue) == QueueState::Closing).map(|queue| Key::of(&*queue)).collect()
        } else {
            let command = caches.get::<Command>(&change.key);
            command.and_then(|command| target_of(&command)).into_iter().collect()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let queue = ctx.caches.get::<Queue>(key);
        let is_aimed = |command: &Arc<Command>| queue.as_ref().is_some_and(|queue| is_for(command, &**queue));
        let (commands, aimless): (Vec<_>, Vec<_>) = commands_for(&ctx.caches, key).into_iter().partition(is_aimed);
        drop_aimless(ctx, key, &aimless).await?;
        let Some(queue) = queue else { return Ok(None) };
        let seen = observe(&ctx.caches, &queue, commands.first());
        for step in plan(&seen) {
            take(ctx, &queue, &step).await?;
        }
        if let Some(command) = commands.first() {
            act::remove(ctx, &**command).await?;
        }
        // The others have their turn with the next look.
        Ok((commands.len() > 1).then_some(SignedDuration::ZERO))
    }
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
async fn drop_aimless(ctx: &Ctx, key: &Key, commands: &[Arc<Command>]) -> Result<(), kube::Error> {
    if commands.is_empty() {
        return Ok(());
    }
    let queue = api(ctx).get_opt(&key.name).await?;
    for command in commands.iter().filter(|command| queue.as_ref().is_none_or(|queue| !is_for(command, queue))) {
        act::remove(ctx, &**command).await?;
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

fn observe<'a>(caches: &Caches, queue: &'a Queue, command: Option<&Arc<Command>>) -> Seen<'a> {
    let name = queue.name_any();
    let parent = caches.get::<Queue>(&Key::new("", &queue.spec.parent));
    let is_inside = |group: &Arc<PodGroup>| {
        let of = if group.spec.queue.is_empty() { names::DEFAULT_QUEUE } else { &group.spec.queue };
        of == name && group.phase() != Some(PodGroupPhase::Completed)
    };
    Seen {
        queue,
        is_parent_open: parent.is_none_or(|parent| state(&parent) == QueueState::Open),
        has_groups: caches.list::<PodGroup>(None).iter().any(is_inside),
        command: command.map(|command| command.action.clone()),
    }
}

async fn take(ctx: &Ctx, queue: &Queue, step: &Step) -> Result<(), kube::Error> {
    match step {
        Step::Join(parent) => patch(ctx, queue, &json!({"spec": {"parent": parent}})).await,
        Step::Mark(is_marked) => {
            let mark = is_marked.then_some("true");
            patch(ctx, queue, &json!({"metadata": {"annotations": {names::CLOSED_BY_PARENT: mark}}})).await
        }
        Step::State(state) => {
            let patch = Patch::Merge(json!({"status": {"state": state}}));
            let written = api(ctx).patch_status(&queue.name_any(), &PatchParams::default(), &patch).await?;
            ctx.caches.assume(written);
            Ok(())
        }
        Step::Warn(message) => {
            ctx.events.warning(queue, "CommandIssued", message);
            Ok(())
        }
    }
}

async fn patch(ctx: &Ctx, queue: &Queue, patch: &Value) -> Result<(), kube::Error> {
    let written = api(ctx).patch(&queue.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    ctx.caches.assume(written);
    Ok(())
}
