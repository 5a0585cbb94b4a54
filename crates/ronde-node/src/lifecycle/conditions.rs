//! The pod's conditions: those of the node, beside those of others, which stay as they are.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition};

use super::{
    container_status::time,
    phase::Phase,
    view::{Role, View},
};

const SANDBOX: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
const READY: &str = "Ready";
const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";
const DISRUPTED: &str = "DisruptionTarget";
const OURS: [&str; 5] = [SANDBOX, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED];

/// What a condition says.
struct Finding {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

/// What the conditions follow from.
pub(super) struct Basis<'a> {
    pub phase: Phase,
    pub init: &'a [ContainerStatus],
    pub main: &'a [ContainerStatus],
}

/// Returns all conditions to publish; the time of the last change stays where nothing changed.
pub(super) fn build(view: &View<'_>, basis: &Basis<'_>) -> Vec<PodCondition> {
    let old = view.old.conditions.as_deref().unwrap_or_default();
    let mut conditions: Vec<_> = old.iter().filter(|old| !OURS.contains(&old.type_.as_str())).cloned().collect();
    let containers_ready = containers_ready(view, basis);
    let ready = if containers_ready.holds { gates(view, &conditions) } else { containers_ready.again() };
    let found = [
        (SANDBOX, Finding::plain(view.is_sandbox_ready())),
        (INITIALIZED, initialized(view, basis)),
        (READY, ready),
        (CONTAINERS_READY, containers_ready),
        (SCHEDULED, Finding::plain(true)),
    ];
    for (name, finding) in found {
        let before = old.iter().find(|condition| condition.type_ == name);
        conditions.push(finding.into_condition(view, name, before));
    }
    if let Some(evicted) = view.evicted.filter(|_| conditions.iter().all(|condition| condition.type_ != DISRUPTED)) {
        let message = Some(evicted.message.clone());
        let finding = Finding { holds: true, reason: Some("TerminationByKubelet"), message };
        conditions.push(finding.into_condition(view, DISRUPTED, None));
    }
    conditions
}

impl Finding {
    fn plain(holds: bool) -> Self {
        Self { holds, reason: None, message: None }
    }

    fn because(holds: bool, reason: &'static str) -> Self {
        Self { holds, reason: Some(reason), message: None }
    }

    fn again(&self) -> Self {
        Self { holds: self.holds, reason: self.reason, message: self.message.clone() }
    }

    fn into_condition(self, view: &View<'_>, name: &str, before: Option<&PodCondition>) -> PodCondition {
        let status = if self.holds { "True" } else { "False" };
        let unchanged = before.filter(|before| before.status == status);
        let since = unchanged.and_then(|before| before.last_transition_time.clone());
        PodCondition {
            type_: name.to_owned(),
            status: status.to_owned(),
            reason: self.reason.map(str::to_owned),
            message: self.message,
            observed_generation: view.pod.metadata.generation,
            last_probe_time: None,
            last_transition_time: Some(since.unwrap_or_else(|| time(view.now))),
        }
    }
}

fn containers_ready(view: &View<'_>, basis: &Basis<'_>) -> Finding {
    match basis.phase {
        Phase::Succeeded => return Finding::because(false, "PodCompleted"),
        Phase::Failed => return Finding::because(false, "PodFailed"),
        Phase::Pending | Phase::Running => {}
    }
    let sidecars = view.init.iter().zip(basis.init).filter(|(unit, _)| unit.role == Role::Sidecar);
    let that_count = sidecars.map(|(_, status)| status).chain(basis.main);
    unless_any("unready", "ContainersNotReady", that_count.filter(|status| !status.ready))
}

fn initialized(view: &View<'_>, basis: &Basis<'_>) -> Finding {
    if basis.phase == Phase::Succeeded {
        return Finding::because(true, "PodCompleted");
    }
    let has_begun = |status: &ContainerStatus| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    // Sidecars that restart later do not undo the initialization.
    if basis.main.iter().any(has_begun) {
        return Finding::plain(true);
    }
    let incomplete = view.init.iter().zip(basis.init).filter(|(unit, status)| match unit.role {
        Role::Sidecar => status.started != Some(true),
        Role::Init | Role::Main => !status.ready,
    });
    unless_any("incomplete", "ContainersNotInitialized", incomplete.map(|(_, status)| status))
}

fn unless_any<'a>(what: &str, reason: &'static str, statuses: impl Iterator<Item = &'a ContainerStatus>) -> Finding {
    let names: Vec<_> = statuses.map(|status| status.name.as_str()).collect();
    if names.is_empty() {
        return Finding::plain(true);
    }
    let message = format!("containers with {what} status: [{}]", names.join(" "));
    Finding { holds: false, reason: Some(reason), message: Some(message) }
}

/// The conditions of others that the pod's readiness waits for.
fn gates(view: &View<'_>, others: &[PodCondition]) -> Finding {
    let gates = view.spec.readiness_gates.as_deref().unwrap_or_default();
    let unmet = gates.iter().filter_map(|gate| {
        let name = &gate.condition_type;
        match others.iter().find(|condition| condition.type_ == *name) {
            None => Some(format!("corresponding condition of pod readiness gate \"{name}\" does not exist.")),
            Some(met) if met.status == "True" => None,
            Some(other) => {
                Some(format!("the status of pod readiness gate \"{name}\" is not \"True\", but {}", other.status))
            }
        }
    });
    let unmet: Vec<_> = unmet.collect();
    if unmet.is_empty() {
        return Finding::plain(true);
    }
    Finding { holds: false, reason: Some("ReadinessGatesNotReady"), message: Some(unmet.join(", ")) }
}
