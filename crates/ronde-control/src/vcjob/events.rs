//! What people are told of a job by events, under the reasons that Volcano uses. Pure.

use kube::ResourceExt as _;
use ronde_api::Job;

use crate::reconcile::{Cause, JobEvent, apply::FAILED_CREATE};

pub const COMMAND_ISSUED: &str = "CommandIssued";
pub const EXECUTE_ACTION: &str = "ExecuteAction";
pub const PLUGIN_ERROR: &str = "PluginError";
pub const PVC_ERROR: &str = "PVCError";
pub const POD_GROUP_PENDING: &str = "PodGroupPending";
/// Ours: where no admission refuses a job, the controller does.
pub const INVALID_JOB: &str = "InvalidJob";
/// Ours: something in a job has no effect, or not the one that it seems to have.
pub const JOB_WARNING: &str = "JobWarning";
/// Ours: pods were ended that had done nothing wrong.
pub const DISRUPTED: &str = "Disrupted";
/// Ours: images, resources or priority of the pods of a job have changed.
pub const PODS_CHANGED: &str = "PodsChanged";
/// Ours: containers of a pod cannot start.
pub const POD_TROUBLE: &str = "PodTrouble";

/// Returns the event about what a job waits for, or what is wrong with its pods.
pub fn waiting(job: &Job, cause: &Cause) -> Option<JobEvent> {
    for reason in [PVC_ERROR, PLUGIN_ERROR] {
        if cause.reason == reason {
            return Some(JobEvent::warning(reason, &cause.message));
        }
    }
    // Every attempt has its own event.
    if cause.reason == FAILED_CREATE {
        return None;
    }
    if cause.reason != POD_GROUP_PENDING {
        return Some(JobEvent::warning(POD_TROUBLE, &cause.message));
    }
    let (namespace, name) = (job.namespace().unwrap_or_default(), job.name_any());
    let message = format!("PodGroup {namespace}:{name} unschedulable, reason: {}", cause.message);
    Some(JobEvent::warning(POD_GROUP_PENDING, message))
}
