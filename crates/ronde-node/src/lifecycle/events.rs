//! Events that follow from the difference between the published status and the new one.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use super::{
    decision::{PodEvent, Severity},
    ending::Ending,
    view::{Role, Unit, View},
};
use crate::images::wording;

/// Returns what is new in the status, each told once.
pub(super) fn changes(view: &View<'_>, ending: &Ending, status: &PodStatus) -> Vec<PodEvent> {
    let mut events = Vec::new();
    pod(view, ending, status, &mut events);
    for unit in view.units() {
        let [old, new] = [view.old, status].map(|status| find(status, unit));
        if let Some(new) = new {
            container(view, unit, (old, new), &mut events);
        }
    }
    events
}

fn pod(view: &View<'_>, ending: &Ending, status: &PodStatus, events: &mut Vec<PodEvent>) {
    let mut tell = |severity, reason: &str, message: &str| {
        events.push(PodEvent {
            severity,
            reason: reason.to_owned(),
            message: message.to_owned(),
            field_path: String::new(),
        });
    };
    if !ending.has_begun && has_sandbox(view.old) && !has_sandbox(status) {
        tell(Severity::Normal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.");
    }
    if status.phase.as_deref() == Some("Failed")
        && let Some(cause) = &ending.failure
    {
        let severity = if cause.reason == "DeadlineExceeded" { Severity::Normal } else { Severity::Warning };
        tell(severity, &cause.reason, view.refused.map_or(&cause.message, |refused| &refused.message));
    }
}

fn container(
    view: &View<'_>,
    unit: &Unit<'_>,
    (old, new): (Option<&ContainerStatus>, &ContainerStatus),
    events: &mut Vec<PodEvent>,
) {
    let name = unit.name();
    let mut tell = |severity, reason: &str, message: String| {
        events.push(PodEvent { severity, reason: reason.to_owned(), message, field_path: unit.field_path() });
    };
    let is_begun = new.container_id.is_some() && new.container_id != old.and_then(|old| old.container_id.clone());
    if is_begun {
        tell(Severity::Normal, "Created", format!("Created container: {name}"));
    }
    match unit.exit().filter(|exit| exit.started_at.is_none()) {
        Some(exit) if !old.is_some_and(|old| is_end_known(old, new)) => {
            let message = exit.message.as_deref().unwrap_or_default();
            tell(Severity::Warning, "Failed", format!("Error: {message}"));
        }
        None if is_begun => tell(Severity::Normal, "Started", format!("Started container {name}")),
        _ => {}
    }
    let Some(waiting) = new.state.as_ref().and_then(|state| state.waiting.as_ref()) else { return };
    let before = old.and_then(|old| old.state.as_ref()).and_then(|state| state.waiting.as_ref());
    let is_new = before != Some(waiting) || old.is_none_or(|old| old.restart_count != new.restart_count);
    match (waiting.reason.as_deref(), &waiting.message) {
        (Some("CrashLoopBackOff"), _) if is_new => {
            let message = format!("Back-off restarting failed container {name} in pod {}", view.shown_name());
            tell(Severity::Warning, "BackOff", message);
        }
        (Some(reason), Some(message)) if is_new => {
            let image = (reason, unit.spec.image.as_deref().unwrap_or_default());
            let is_image = image_events(image, message, &mut tell);
            tell(Severity::Warning, "Failed", format!("Error: {}", if is_image { reason } else { message }));
        }
        _ => {}
    }
}

/// Tells why a container waits for its image; returns whether it does. After that the kubelet repeats only the reason.
fn image_events((reason, image): (&str, &str), message: &str, tell: &mut dyn FnMut(Severity, &str, String)) -> bool {
    match reason {
        wording::PULL_FAILED => {
            tell(Severity::Warning, "Failed", format!("Failed to pull image \"{image}\": {message}"));
        }
        wording::BACKING_OFF => tell(Severity::Normal, "BackOff", wording::back_off(image)),
        "ErrImageNeverPull" => tell(Severity::Warning, reason, message.to_owned()),
        "InvalidImageName" | "ImageInspectError" => tell(Severity::Warning, "InspectFailed", message.to_owned()),
        _ => return false,
    }
    true
}

/// Whether the end of the newest attempt was published before.
fn is_end_known(old: &ContainerStatus, new: &ContainerStatus) -> bool {
    let mut states = [&old.state, &old.last_state].into_iter().flatten();
    states.any(|state| state.terminated.as_ref().is_some_and(|ended| ended.container_id == new.container_id))
}

fn find<'a>(status: &'a PodStatus, unit: &Unit<'_>) -> Option<&'a ContainerStatus> {
    let list = match unit.role {
        Role::Main => status.container_statuses.as_deref(),
        Role::Init | Role::Sidecar => status.init_container_statuses.as_deref(),
    };
    list?.iter().find(|status| status.name == unit.name())
}

fn has_sandbox(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "PodReadyToStartContainers" && condition.status == "True")
}
