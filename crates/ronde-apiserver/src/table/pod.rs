//! The row of a pod: READY, STATUS and RESTARTS summed up over its containers.
//!
//! STATUS starts as the phase and is overridden, in this order, by the reason in the status, a scheduling gate, the
//! first init container that is not done, the first container that waits or has ended, and the deletion of the pod.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    RowCondition, age,
    column::{AGE, Column, NAME, text_column, wide_column},
    field::{NONE, cells, flag, has_condition, int, is_being_deleted, list, name, text, text_or},
};

pub(super) static POD: [Column; 9] = [
    NAME,
    text_column("Ready", "The ready containers, of all that are to run."),
    text_column("Status", "What the containers of the pod are doing, in a word."),
    text_column("Restarts", "How often containers were restarted, and when last."),
    AGE,
    wide_column("IP", "The address of the pod."),
    wide_column("Node", "The node that the pod is bound to."),
    wide_column("Nominated Node", "The node that is being cleared for the pod by preemption."),
    wide_column("Readiness Gates", "The readiness gates that are met, of all."),
];

/// What the containers of a pod add up to.
#[derive(Default)]
struct Summary {
    ready: usize,
    restarts: Restarts,
    /// Overrides the reason of the pod.
    reason: Option<String>,
}

#[derive(Default, Clone, Copy)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summary(pod);
    let (spec, status) = (&pod["spec"], &pod["status"]);
    cells![
        name(pod),
        format!("{}/{}", summary.ready, containers_to_run(spec)),
        status_word(pod, summary.reason),
        summary.restarts.cell(now),
        super::field::age(pod, now),
        pod_ip(status),
        text_or(&spec["nodeName"], NONE),
        text_or(&status["nominatedNodeName"], NONE),
        readiness_gates(spec, status),
    ]
}

pub(super) fn condition(pod: &Value) -> Option<RowCondition> {
    let (reason, message) = match text(&pod["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(RowCondition { kind: "Completed", status: "True", reason, message })
}

/// Containers, and init containers that go on running beside them.
fn containers_to_run(spec: &Value) -> usize {
    let sidecars = list(&spec["initContainers"]).iter().filter(|container| is_restartable(container)).count();
    list(&spec["containers"]).len() + sidecars
}

fn is_restartable(init_container: &Value) -> bool {
    init_container["restartPolicy"] == "Always"
}

fn status_word(pod: &Value, reason: Option<String>) -> String {
    let status = &pod["status"];
    let phase = text(&status["phase"]);
    if is_being_deleted(pod) {
        if status["reason"] == "NodeLost" {
            return "Unknown".to_owned();
        }
        if !matches!(phase, "Succeeded" | "Failed") {
            return "Terminating".to_owned();
        }
    }
    reason.unwrap_or_else(|| {
        let is_gated = |c: &Value| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated";
        if list(&status["conditions"]).iter().any(is_gated) {
            return "SchedulingGated".to_owned();
        }
        text_or(&status["reason"], phase).to_owned()
    })
}

fn summary(pod: &Value) -> Summary {
    let status = &pod["status"];
    let mut sidecar_restarts = Restarts::default();
    let mut summary = init_containers(pod, &mut sidecar_restarts);
    if summary.reason.is_none() || has_condition(status, "Initialized") {
        summary.restarts = sidecar_restarts;
        main_containers(status, &mut summary);
    }
    summary
}

/// Goes through the init containers up to the first that is not done; its state is the reason.
fn init_containers(pod: &Value, sidecar_restarts: &mut Restarts) -> Summary {
    let specs = list(&pod["spec"]["initContainers"]);
    let mut summary = Summary::default();
    for (index, container) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
        let is_sidecar = specs.iter().any(|spec| spec["name"] == container["name"] && is_restartable(spec));
        summary.restarts.add(container);
        if is_sidecar {
            sidecar_restarts.add(container);
        }
        let terminated = &container["state"]["terminated"];
        if terminated.is_object() && int(&terminated["exitCode"]) == 0 {
            continue;
        }
        if is_sidecar && flag(&container["started"]) {
            summary.ready += usize::from(flag(&container["ready"]));
            continue;
        }
        summary.reason = Some(match state_reason(&container["state"]) {
            Some(reason) if reason != "PodInitializing" || terminated.is_object() => format!("Init:{reason}"),
            _ => format!("Init:{index}/{}", specs.len()),
        });
        break;
    }
    summary
}

/// Adds the containers; the first one that waits or has ended is the reason.
fn main_containers(status: &Value, summary: &mut Summary) {
    let mut has_running = false;
    for container in list(&status["containerStatuses"]).iter().rev() {
        summary.restarts.add(container);
        let state = &container["state"];
        if let Some(reason) = state_reason(state) {
            summary.reason = Some(reason);
        } else if flag(&container["ready"]) && state["running"].is_object() {
            has_running = true;
            summary.ready += 1;
        }
    }
    if has_running && summary.reason.as_deref() == Some("Completed") {
        let word = if has_condition(status, "Ready") { "Running" } else { "NotReady" };
        summary.reason = Some(word.to_owned());
    }
}

/// Why a container waits or how it ended; none if it runs or nothing is known.
fn state_reason(state: &Value) -> Option<String> {
    let (waiting, terminated) = (text(&state["waiting"]["reason"]), &state["terminated"]);
    if !waiting.is_empty() && !terminated.is_object() {
        return Some(waiting.to_owned());
    }
    if !terminated.is_object() {
        return None;
    }
    Some(match (text(&terminated["reason"]), int(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", int(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count = self.count.saturating_add(int(&container["restartCount"]));
        self.last = self.last.max(age::parse(&container["lastState"]["terminated"]["finishedAt"]));
    }

    fn cell(self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, age::human_duration(now.duration_since(last)))
            }
            _ => self.count.to_string(),
        }
    }
}

fn pod_ip(status: &Value) -> &str {
    match text(&status["podIP"]) {
        "" => list(&status["podIPs"]).first().map_or(NONE, |ip| text_or(&ip["ip"], NONE)),
        ip => ip,
    }
}

fn readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = list(&spec["readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let met = gates.iter().filter(|gate| has_condition(status, text(&gate["conditionType"]))).count();
    format!("{met}/{}", gates.len())
}
