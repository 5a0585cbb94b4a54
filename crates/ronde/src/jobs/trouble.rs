//! What is wrong with the pods of a job, for when its status does not say: their containers first, then their events.
//!
//! Pure but for [`Warnings::fetch`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod, PodStatus};
use kube::{Client, ResourceExt as _};
use ronde_runtime::pods::trouble as containers;

use super::any::AnyJob;
use crate::{failure::Failure, objects, show::last_seen};

/// Selects the events by which pods complain.
pub const OF_PODS: (&str, &str) = ("fieldSelector", "involvedObject.kind=Pod,type=Warning");

/// What begins the number of pods that are not named.
const MORE: &str = " (and ";

/// The last complaint about each pod, by its uid.
#[derive(Debug, Default)]
pub struct Warnings(BTreeMap<String, (Option<Timestamp>, String)>);

impl Warnings {
    /// Asks for the complaints about the pods of a namespace, or of all.
    pub async fn fetch(client: &Client, namespace: Option<&str>) -> Result<Self, Box<dyn Failure>> {
        Ok(Self::of(&objects::list::<Event>(client, namespace, &[OF_PODS]).await?))
    }

    pub fn of(events: &[Event]) -> Self {
        let mut last: BTreeMap<String, (Option<Timestamp>, String)> = BTreeMap::new();
        for event in events.iter().filter(|event| event.type_.as_deref() == Some("Warning")) {
            let Some(uid) = event.involved_object.uid.clone() else { continue };
            let (seen, text) = (last_seen(event), joined(event.reason.as_deref(), event.message.as_deref()));
            if last.get(&uid).is_none_or(|(before, _)| *before <= seen) {
                last.insert(uid, (seen, text));
            }
        }
        Self(last)
    }

    fn about(&self, pod: &Pod) -> Option<String> {
        Some(self.0.get(pod.metadata.uid.as_ref()?)?.1.clone())
    }
}

/// Groups pods by the uid of their controller.
pub fn by_owner(pods: Vec<Pod>) -> BTreeMap<String, Vec<Pod>> {
    let mut owned: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
    for pod in pods {
        let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
        if let Some(uid) = owner.map(|owner| owner.uid.clone()) {
            owned.entry(uid).or_default().push(pod);
        }
    }
    owned
}

/// Says what keeps the pods of a job from running, or what has ended them.
pub fn of_job(job: &AnyJob, pods: &[Pod], warnings: &Warnings) -> Option<String> {
    let mut pods: Vec<&Pod> = pods.iter().collect();
    pods.sort_by_key(|pod| job.place(pod));
    summed_up(pods.into_iter().filter_map(|pod| Some((pod.name_any(), of_pod(pod, warnings)?))))
}

/// Names the first pod with its trouble, and counts the others.
pub fn summed_up(mut troubled: impl Iterator<Item = (String, String)>) -> Option<String> {
    let (pod, why) = troubled.next()?;
    let more = match troubled.count() {
        0 => String::new(),
        1 => format!("{MORE}1 more pod)"),
        count => format!("{MORE}{count} more pods)"),
    };
    Some(format!("pod {pod}: {why}{more}"))
}

/// Adds the trouble of pods to what is known of a job that has not ended, unless that says it already.
pub fn with_reason(reason: Option<String>, trouble: Option<String>) -> Option<String> {
    let (reason, trouble) = match (reason, trouble) {
        (Some(reason), Some(trouble)) => (reason, trouble),
        (reason, trouble) => return reason.or(trouble),
    };
    let (pod, why) = trouble.trim_start_matches("pod ").split_once(": ").unwrap_or_default();
    let one = why.split(MORE).next().unwrap_or(why);
    let is_said = reason.contains(pod) || reason.contains(one) || why.contains(&reason);
    Some(if is_said { reason } else { format!("{reason}; {trouble}") })
}

/// Says what keeps a pod from running, or what has ended it.
pub fn of_pod(pod: &Pod, warnings: &Warnings) -> Option<String> {
    let status = pod.status.as_ref()?;
    let stuck = || containers::of_pod(pod).map(|trouble| trouble.message);
    match status.phase.as_deref() {
        Some("Succeeded") => None,
        Some("Failed") => containers::of_failed(pod),
        Some("Running") => stuck(),
        _ => stuck().or_else(|| unplaced(status)).or_else(|| warnings.about(pod)),
    }
}

/// Says why no node was found.
fn unplaced(status: &PodStatus) -> Option<String> {
    let mut conditions = status.conditions.iter().flatten();
    let scheduled = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
    scheduled.message.clone().filter(|message| !message.is_empty())
}

fn joined(reason: Option<&str>, message: Option<&str>) -> String {
    let parts = [reason, message].into_iter().flatten().map(str::trim).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name, "uid": name}, "status": status})).unwrap()
    }

    fn container(state: Value, last: Value) -> Value {
        json!([{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 2, "state": state,
            "lastState": last}])
    }

    fn check(what: &str, status: Value, expected: Option<&str>) {
        let object = json!({"kind": "Pod", "uid": "p"});
        let event = |reason: &str, second: &str| -> Event {
            let at = format!("2026-01-01T00:00:{second}Z");
            serde_json::from_value(json!({"metadata": {}, "involvedObject": object, "type": "Warning",
                "reason": reason, "message": "no such folder", "lastTimestamp": at}))
            .unwrap()
        };
        let warnings = Warnings::of(&[event("FailedMount", "09"), event("Older", "01")]);
        assert_eq!(of_pod(&pod("p", status), &warnings).as_deref(), expected, "{what}");
    }

    #[test]
    fn a_pod_says_what_is_wrong_with_it() {
        let waits = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
        let ends = |code: i32, reason: &str, message: &str| json!({"terminated": {"exitCode": code, "reason": reason, "message": message}});
        let pending = |state: Value| json!({"phase": "Pending", "containerStatuses": container(state, Value::Null)});
        check(
            "a container that cannot be made",
            pending(waits("CreateContainerError", "no command specified")),
            Some("CreateContainerError in container main: no command specified"),
        );
        check(
            "one on its way, and a complaint",
            pending(waits("ContainerCreating", "")),
            Some("FailedMount: no such folder"),
        );
        let unplaced = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "needs 4 CPUs"}]});
        check("no node", unplaced, Some("needs 4 CPUs"));
        let again = container(waits("CrashLoopBackOff", "back-off 40s"), ends(3, "Error", "oh no\n"));
        check(
            "a loop",
            json!({"phase": "Running", "containerStatuses": again}),
            Some("CrashLoopBackOff in container main: restarted 2 times, exit code 3: oh no"),
        );
        let killed = container(ends(137, "OOMKilled", ""), Value::Null);
        check(
            "too much memory",
            json!({"phase": "Failed", "containerStatuses": killed}),
            Some("exit code 137 (OOMKilled)"),
        );
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "low on disk"});
        check("evicted", evicted, Some("low on disk"));
        let runs = container(json!({"running": {}}), ends(1, "Error", ""));
        check("it runs again", json!({"phase": "Running", "containerStatuses": runs}), None);
        check("done", json!({"phase": "Succeeded"}), None);
    }

    #[test]
    fn the_first_pod_speaks_for_the_others() {
        let some = |names: &[&str]| summed_up(names.iter().map(|name| ((*name).to_owned(), "why".to_owned())));
        assert_eq!(some(&[]), None);
        assert_eq!(some(&["a"]).unwrap(), "pod a: why");
        assert_eq!(some(&["a", "b"]).unwrap(), "pod a: why (and 1 more pod)");
        assert_eq!(some(&["a", "b", "c"]).unwrap(), "pod a: why (and 2 more pods)");
    }

    #[test]
    fn what_is_known_is_not_said_twice() {
        let both = |reason: &str, trouble: &str| with_reason(Some(reason.to_owned()), Some(trouble.to_owned()));
        assert_eq!(with_reason(None, Some("pod a: why".to_owned())).unwrap(), "pod a: why");
        assert_eq!(with_reason(Some("waits".to_owned()), None).unwrap(), "waits");
        assert_eq!(both("0 of 2 workers", "pod a-0: why").unwrap(), "0 of 2 workers; pod a-0: why");
        assert_eq!(both("pod a-0 has failed", "pod a-0: why").unwrap(), "pod a-0 has failed");
        assert_eq!(both("needs 4 CPUs", "pod a-0: needs 4 CPUs").unwrap(), "needs 4 CPUs");
        let preempted = "preempted by b; needs 4 CPUs";
        assert_eq!(both(preempted, "pod a-0: needs 4 CPUs (and 1 more pod)").unwrap(), preempted);
    }
}
