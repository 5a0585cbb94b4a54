//! Which scheduler and which group a pod belongs to, for the scheduler and for who gives plain pods a group. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use ronde_api::names;
use ronde_scheduler::GroupId;

/// The scheduler of pods that name none. Its pods need no group.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// The names of the schedulers whose pods are placed here.
pub type Schedulers = BTreeSet<String>;

/// Whose a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// A member of a group.
    Of(GroupId),
    /// A gang of one.
    Alone,
    /// Ours, but its group is still to be made.
    Unassigned,
    /// Another scheduler's: it only takes room.
    Stranger,
}

/// Returns whose a pod is.
pub fn membership(pod: &Pod, schedulers: &Schedulers) -> Membership {
    let scheduler = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(DEFAULT_SCHEDULER);
    let group = pod.annotations().get(names::GROUP_NAME).filter(|name| !name.is_empty());
    match group {
        _ if !schedulers.contains(scheduler) => Membership::Stranger,
        Some(name) => Membership::Of(GroupId::new(&pod.namespace().unwrap_or_default(), name)),
        None if scheduler == DEFAULT_SCHEDULER => Membership::Alone,
        None => Membership::Unassigned,
    }
}
