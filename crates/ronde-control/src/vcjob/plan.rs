//! What is to be done for a job whose status says all there is to say.
//!
//! Pure. Everything here follows from what is stored: whoever looks again after a `kill -9` comes to the same plan, less
//! what is done already.

use std::{collections::BTreeSet, sync::Arc};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use ronde_api::{Command, JobPhase, PodGroup};

use super::{
    depends, group,
    member::Member,
    memory::{Memory, PLUGIN},
    observed::{Observed, is_live, is_past_group},
    plugins::Plugins,
    pod, volumes,
};
use crate::reconcile::GroupChange;

/// What is to be done.
#[derive(Debug, Clone, Default)]
pub struct VcJobPlan {
    /// Commands that were carried out.
    pub forget: Vec<Arc<Command>>,
    /// Pods that need not be watched over any more: the status knows what became of them.
    pub release: Vec<Arc<Pod>>,
    pub kill: Vec<Arc<Pod>>,
    pub group: GroupChange,
    pub claims: Vec<PersistentVolumeClaim>,
    pub objects: Objects,
    pub create: Vec<Pod>,
    /// When to look again even if nothing changes.
    pub look_again: Option<SignedDuration>,
}

#[cfg(test)]
impl VcJobPlan {
    /// Returns how many writes it takes at most.
    pub fn writes(&self) -> usize {
        let group = usize::from(self.group != GroupChange::Leave);
        let objects = usize::from(self.objects != Objects::Leave);
        let pods = self.release.len() + self.kill.len() + self.create.len();
        self.forget.len() + pods + group + self.claims.len() + objects
    }
}

/// What is to be done with the objects of plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Objects {
    #[default]
    Leave,
    Ensure,
    Delete,
}

/// Plans for a job in a phase.
pub fn plan(seen: &Observed<'_>, memory: &Memory, phase: JobPhase) -> VcJobPlan {
    let members = || seen.members.iter();
    let pods = |is: &dyn Fn(&&Member) -> bool| members().filter(is).map(|member| member.pod.clone()).collect();
    let mut plan = VcJobPlan {
        forget: done_commands(seen, memory),
        release: pods(&|member| member.is_tracked() && is_known(seen, memory, phase, member)),
        kill: pods(&|member| !member.is_deleted() && is_to_go(seen, memory, phase, member)),
        group: group_plan(seen, memory, phase),
        ..VcJobPlan::default()
    };
    if phase.is_final() && has_plugins(seen) {
        plan.objects = Objects::Delete;
    }
    if matches!(phase, JobPhase::Pending | JobPhase::Running) {
        fill(seen, memory, &mut plan);
    }
    plan
}

/// Tells whether the status says that something was, or was to be, made for plugins.
fn has_plugins(seen: &Observed<'_>) -> bool {
    let made = seen.job.status.iter().flat_map(|status| status.controlled_resources.keys());
    made.into_iter().any(|key| key.starts_with(PLUGIN))
}

/// Returns the commands that were carried out.
pub fn done_commands(seen: &Observed<'_>, memory: &Memory) -> Vec<Arc<Command>> {
    seen.commands.iter().filter(|command| command.uid() == memory.command).cloned().collect()
}

/// Tells whether the status has all that it needs of a pod.
fn is_known(seen: &Observed<'_>, memory: &Memory, phase: JobPhase, member: &Member) -> bool {
    let is_remembered = member.has_succeeded() && memory.has_succeeded(&member.task, member.index);
    // An eviction that asked for an action has had it: else there would be no plan but another status.
    phase.is_final() || is_remembered || member.is_deleted() || !seen.is_present(memory, member)
}

fn is_to_go(seen: &Observed<'_>, memory: &Memory, phase: JobPhase, member: &Member) -> bool {
    let is_over = !seen.is_present(memory, member) && !seen.is_kept(memory, member);
    is_over || !is_live(phase) && !member.is_finished()
}

fn group_plan(seen: &Observed<'_>, memory: &Memory, phase: JobPhase) -> GroupChange {
    let is_wanted = matches!(phase, JobPhase::Pending | JobPhase::Running);
    match &seen.group {
        Some(group) if group.metadata.deletion_timestamp.is_some() => GroupChange::Leave,
        Some(group) if !is_live(phase) || is_past_group(memory, group) => GroupChange::Delete(group.clone()),
        Some(group) if is_wanted => {
            let spec = group::spec(seen, memory);
            let changed = || PodGroup { spec: spec.clone(), ..PodGroup::clone(group) };
            if group.spec == spec { GroupChange::Leave } else { GroupChange::Replace(Box::new(changed())) }
        }
        None if is_wanted => GroupChange::Create(Box::new(group::build(seen, memory))),
        _ => GroupChange::Leave,
    }
}

/// Makes what is missing; pods only when the queue has let the job in.
fn fill(seen: &Observed<'_>, memory: &Memory, plan: &mut VcJobPlan) {
    let plugins = Plugins::of_job(seen.job);
    plan.claims = volumes::missing(seen);
    plan.create = missing_pods(seen, memory, &plugins);
    let wanted = Some(plugins.fingerprint());
    // Somebody may have deleted or changed what pods find each other by: it is looked at before new ones need it.
    let is_known = memory.applied == wanted && !seen.has_lost_objects && plan.create.is_empty();
    if !is_known && seen.in_place != wanted && !plugins.objects().is_empty() {
        plan.objects = Objects::Ensure;
    }
}

fn missing_pods(seen: &Observed<'_>, memory: &Memory, plugins: &Plugins<'_>) -> Vec<Pod> {
    if !seen.is_admitted(memory) || !seen.missing_claims().is_empty() || plugins.obstacle().is_some() {
        return Vec::new();
    }
    let there: BTreeSet<&str> = seen.members.iter().map(|member| member.name.as_str()).collect();
    let startable = depends::startable(seen, memory);
    let mut pods = Vec::new();
    for task in seen.spec().tasks.iter().filter(|task| startable.contains(task.name.as_str())) {
        for index in 0..task.replicas {
            let name = ronde_api::names::pod(&seen.job.name_any(), &task.name, index);
            if !there.contains(name.as_str()) && !memory.has_succeeded(&task.name, index) {
                let mut pod = pod::build(seen.job, task, index, plugins);
                if seen.is_forwarded {
                    pod::mark_for_forwarding(&mut pod);
                }
                pods.push(pod);
            }
        }
    }
    pods
}
