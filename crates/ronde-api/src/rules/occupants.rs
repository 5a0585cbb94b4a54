//! What is in a queue: jobs that have not ended, and groups that belong to none of them.

use crate::{
    Job, JobPhase, PodGroup, PodGroupPhase, TrainingJob,
    names::{DEFAULT_QUEUE, GROUP_QUEUE},
};

/// How many of them are named.
const NAMED_MAX: usize = 5;

/// Something that may be in a queue.
pub trait Occupant {
    /// Returns the queue that it is in; none if it has ended.
    fn queue(&self) -> Option<&str>;

    /// Says what it is: `job default/mnist`.
    fn describe(&self) -> String;
}

impl Occupant for Job {
    fn queue(&self) -> Option<&str> {
        let phase = self.status.as_ref().and_then(|status| status.state.phase);
        let is_over = matches!(phase, Some(JobPhase::Completed | JobPhase::Failed | JobPhase::Terminated));
        (!is_over).then_some(or_default(&self.spec.queue))
    }

    fn describe(&self) -> String {
        place("job", self.metadata.namespace.as_deref(), self.metadata.name.as_deref())
    }
}

impl Occupant for TrainingJob {
    fn queue(&self) -> Option<&str> {
        let is_over = self.phase().is_some_and(crate::TrainingJobPhase::is_final);
        let named = self.metadata.annotations.as_ref().and_then(|notes| notes.get(GROUP_QUEUE));
        let named = named.or_else(|| self.metadata.labels.as_ref().and_then(|notes| notes.get(GROUP_QUEUE)));
        (!is_over).then(|| named.map_or(DEFAULT_QUEUE, |named| or_default(named)))
    }

    fn describe(&self) -> String {
        place("training job", self.metadata.namespace.as_deref(), self.metadata.name.as_deref())
    }
}

impl Occupant for PodGroup {
    fn queue(&self) -> Option<&str> {
        let is_over = self.phase() == Some(PodGroupPhase::Completed);
        let mut owners = self.metadata.owner_references.iter().flatten();
        let is_told_by_job = owners.any(|owner| matches!(owner.kind.as_str(), "Job" | "TrainingJob"));
        (!is_over && !is_told_by_job).then_some(or_default(&self.spec.queue))
    }

    fn describe(&self) -> String {
        place("pod group", self.metadata.namespace.as_deref(), self.metadata.name.as_deref())
    }
}

fn or_default(queue: &str) -> &str {
    if queue.is_empty() { DEFAULT_QUEUE } else { queue }
}

fn place(kind: &str, namespace: Option<&str>, name: Option<&str>) -> String {
    format!("{kind} {}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
}

/// Returns those that are in a queue, in words.
pub fn in_queue<'a, T: Occupant + 'a>(queue: &str, all: impl IntoIterator<Item = &'a T>) -> Vec<String> {
    let inside = all.into_iter().filter(|one| one.queue() == Some(queue));
    inside.map(Occupant::describe).collect()
}

/// Says what is in a queue, if anything is.
pub fn describe(occupants: &[String]) -> Option<String> {
    let named = occupants.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match occupants.len() {
        0 => None,
        count if count > NAMED_MAX => Some(format!("it is not empty: {named} and {} more", count - NAMED_MAX)),
        _ => Some(format!("it is not empty: {named}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn who_has_not_ended_is_in_its_queue() {
        let job = |name: &str, queue: &str, phase: &str| -> Job {
            let meta = json!({"name": name, "namespace": "ns"});
            read(json!({"metadata": meta, "spec": {"queue": queue}, "status": {"state": {"phase": phase}}}))
        };
        let jobs = [
            job("runs", "q", "Running"),
            job("suspended", "q", "Aborted"),
            job("ended", "q", "Failed"),
            job("other", "", "Running"),
        ];
        assert_eq!(in_queue("q", &jobs), ["job ns/runs", "job ns/suspended"]);
        assert_eq!(in_queue(DEFAULT_QUEUE, &jobs), ["job ns/other"]);
        let training = |notes: Value, phase: &str| -> TrainingJob {
            read(
                json!({"metadata": {"name": "t", "namespace": "ns", "annotations": notes}, "status": {"phase": phase}}),
            )
        };
        let named = json!({GROUP_QUEUE: "q"});
        let trainings =
            [training(named.clone(), "Created"), training(named, "Succeeded"), training(json!({}), "Running")];
        assert_eq!(in_queue("q", &trainings), ["training job ns/t"]);
        let group = |owners: Value| -> PodGroup {
            read(
                json!({"metadata": {"name": "g", "namespace": "ns", "ownerReferences": owners}, "spec": {"queue": "q"}}),
            )
        };
        let owner = json!([{"apiVersion": "v", "kind": "Job", "name": "runs", "uid": "u"}]);
        assert_eq!(in_queue("q", &[group(owner), group(json!([]))]), ["pod group ns/g"]);
    }

    #[test]
    fn the_first_of_many_are_named() {
        assert_eq!(describe(&[]), None);
        let many: Vec<String> = (0..7).map(|number| format!("job ns/j{number}")).collect();
        let told = "it is not empty: job ns/j0, job ns/j1, job ns/j2, job ns/j3, job ns/j4 and 2 more";
        assert_eq!(describe(&many).as_deref(), Some(told));
        assert_eq!(describe(&many[..1]).as_deref(), Some("it is not empty: job ns/j0"));
    }
}
