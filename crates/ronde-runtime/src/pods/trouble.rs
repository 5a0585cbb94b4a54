//! What is wrong with the containers of a pod, in one sentence for the status of its job. Pure.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodSpec};

use super::disruption::short;

/// Containers wait with these on the way to their start; with anything else they wait because something is wrong.
const ON_THE_WAY: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];
/// How many of the last lines of a program are repeated.
const LINES_MAX: usize = 3;
/// How many characters of them.
const TAIL_MAX: usize = 300;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// One word, as the node says it: `ErrImagePull`, `CrashLoopBackOff`.
    pub reason: String,
    pub message: String,
}

/// Lets containers that fail leave their last lines in their status, unless they say themselves what they leave there.
pub fn keep_last_lines(spec: &mut PodSpec) {
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        container.termination_message_policy.get_or_insert_with(|| "FallbackToLogsOnError".to_owned());
    }
}

/// Returns what keeps the first container that cannot start from starting.
pub fn of_pod(pod: &Pod) -> Option<Trouble> {
    containers(pod).find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().filter(|reason| !ON_THE_WAY.contains(reason))?;
        let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        let said = || short(waiting.message.as_deref().unwrap_or_default());
        let why = last.map_or_else(said, |last| format!("restarted {} times, {}", status.restart_count, ended(last)));
        let why = why.replace("restarted 1 times", "restarted once");
        Some(Trouble {
            reason: reason.to_owned(),
            message: joined(&format!("{reason} in container {}", status.name), &why),
        })
    })
}

/// Says how a pod has failed: `exit code 1: ModuleNotFoundError: No module named 'torch'`.
pub fn of_failed(pod: &Pod) -> Option<String> {
    let ended_badly = |status: &ContainerStatus| {
        let ended = status.state.as_ref()?.terminated.as_ref()?;
        (ended.exit_code != 0).then(|| self::ended(ended))
    };
    let status = pod.status.as_ref()?;
    let told = [&status.message, &status.reason].into_iter().flatten().map(|text| short(text));
    // What a node says about the whole pod tells more than the signal that it sent.
    told.into_iter().find(|text| !text.is_empty()).or_else(|| containers(pod).find_map(ended_badly))
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses)).flatten()
}

fn ended(ended: &ContainerStateTerminated) -> String {
    let code = format!("exit code {}", ended.exit_code);
    let reason = ended.reason.as_deref().filter(|reason| !matches!(*reason, "" | "Error" | "Completed"));
    let code = reason.map_or(code.clone(), |reason| format!("{code} ({reason})"));
    joined(&code, &tail(ended.message.as_deref().unwrap_or_default()))
}

fn joined(what: &str, why: &str) -> String {
    if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
}

/// Returns the last lines that say something, as one line of a bounded length.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines[lines.len().saturating_sub(LINES_MAX)..].join(" | ");
    match line.char_indices().rev().nth(TAIL_MAX) {
        Some((at, first)) => format!("…{}", &line[at + first.len_utf8()..]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(container: Value) -> Pod {
        serde_json::from_value(json!({"status": {"containerStatuses": [container]}})).expect("a pod")
    }

    fn waiting(reason: &str, message: &str, last: Value) -> Pod {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        pod(json!({
            "name": "c", "image": "x", "imageID": "", "ready": false, "restartCount": 3,
            "state": state, "lastState": {"terminated": last},
        }))
    }

    #[test]
    fn what_a_container_waits_for_is_one_sentence() {
        let check = |pod: Pod, expected: Option<&str>| {
            assert_eq!(of_pod(&pod).map(|trouble| trouble.message).as_deref(), expected);
        };
        check(Pod::default(), None);
        check(waiting("ContainerCreating", "", Value::Null), None);
        let refused = waiting("CreateContainerError", "no command\n  given.", Value::Null);
        check(refused, Some("CreateContainerError in container c: no command given"));
        let crashed = json!({"exitCode": 1, "reason": "Error", "message": "\nTraceback\n  a\n\n  b\nValueError: x\n"});
        let crashes = waiting("CrashLoopBackOff", "back-off 10s", crashed);
        let expected = "CrashLoopBackOff in container c: restarted 3 times, exit code 1: a | b | ValueError: x";
        check(crashes, Some(expected));
    }

    #[test]
    fn what_a_failed_pod_says_is_bounded() {
        let ended = |code: i32, reason: &str, message: &str| {
            let state = json!({"terminated": {"exitCode": code, "reason": reason, "message": message}});
            let (id, name) = ("", "c");
            pod(json!({
                "name": name, "image": "x", "imageID": id, "ready": false, "restartCount": 0, "state": state,
            }))
        };
        assert_eq!(of_failed(&ended(0, "Completed", "")), None);
        assert_eq!(of_failed(&ended(137, "OOMKilled", "")).as_deref(), Some("exit code 137 (OOMKilled)"));
        let long = of_failed(&ended(1, "Error", &"ä".repeat(5000))).expect("it has failed");
        assert!(long.starts_with("exit code 1: …ä") && long.chars().count() < 330, "{long}");
        let mut evicted = ended(137, "Error", "");
        let status = evicted.status.get_or_insert_default();
        status.message = Some("Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ".to_owned());
        let expected = "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\"";
        assert_eq!(of_failed(&evicted).as_deref(), Some(expected));
    }
}
