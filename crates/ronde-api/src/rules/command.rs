//! Commands: an action that fits its target.

use super::{Fault, fault::Faults};
use crate::{Action, Command};

/// The kinds that take commands, each with its actions.
const TARGETS: [(&str, &str, &[Action]); 2] = [
    (
        "batch.volcano.sh/v1alpha1",
        "Job",
        &[
            Action::AbortJob,
            Action::RestartJob,
            Action::RestartTask,
            Action::RestartPod,
            Action::RestartPartition,
            Action::TerminateJob,
            Action::CompleteJob,
            Action::ResumeJob,
            Action::SyncJob,
            Action::EnqueueJob,
        ],
    ),
    ("scheduling.volcano.sh/v1beta1", "Queue", &[Action::SyncQueue, Action::OpenQueue, Action::CloseQueue]),
];

/// Returns what is wrong with a command.
pub fn validate(command: &Command) -> Vec<Fault> {
    let mut faults = Faults::default();
    if command.action.is_empty() {
        faults.required("action", "must be an action, such as AbortJob");
    }
    let Some(target) = &command.target else {
        faults.required("target", "must name the job or queue that the action is for");
        return faults.into_vec();
    };
    if target.name.is_empty() {
        faults.required("target.name", "must name the job or queue that the action is for");
    }
    match TARGETS.iter().find(|(version, kind, _)| *version == target.api_version && *kind == target.kind) {
        Some((.., actions)) => faults.one_of("action", &command.action, actions.iter().map(|action| action.as_str())),
        None => {
            let kinds: Vec<String> = TARGETS.iter().map(|(version, kind, _)| format!("{version} {kind}")).collect();
            let given = format!("{} {}", target.api_version, target.kind);
            faults.invalid("target", format!("{given} does not accept commands, only {} do", kinds.join(" and ")));
        }
    }
    faults.into_vec()
}

/// Returns what is taken and has no effect.
pub fn warnings(command: &Command) -> Vec<String> {
    let partial = [Action::RestartTask, Action::RestartPod, Action::RestartPartition];
    let is_partial = command.action.parse().is_ok_and(|action| partial.contains(&action));
    let effect = format!("action: {} needs a pod, which a command cannot name: it has no effect", command.action);
    is_partial.then_some(effect).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    /// Its API version, kind and name.
    type Target = (&'static str, &'static str, &'static str);

    #[test]
    fn an_action_must_fit_its_target() {
        let job = ("batch.volcano.sh/v1alpha1", "Job", "mnist");
        let queue = ("scheduling.volcano.sh/v1beta1", "Queue", "team");
        let rows: [(&str, Option<Target>, &[&str]); 7] = [
            ("AbortJob", Some(job), &[]),
            ("OpenQueue", Some(queue), &[]),
            (
                "",
                None,
                &[
                    "action: must be an action, such as AbortJob",
                    "target: must name the job or queue that the action is for",
                ],
            ),
            (
                "OpenQueue",
                Some(job),
                &[
                    "action: \"OpenQueue\" is not one of AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, \
                 TerminateJob, CompleteJob, ResumeJob, SyncJob, EnqueueJob",
                ],
            ),
            ("AbortJob", Some(queue), &["action: \"AbortJob\" is not one of SyncQueue, OpenQueue, CloseQueue"]),
            (
                "AbortJob",
                Some(("batch/v1", "Job", "mnist")),
                &["target: batch/v1 Job does not accept commands, only batch.volcano.sh/v1alpha1 Job and \
                 scheduling.volcano.sh/v1beta1 Queue do"],
            ),
            (
                "AbortJob",
                Some(("batch.volcano.sh/v1alpha1", "Job", "")),
                &["target.name: must name the job or queue that the action is for"],
            ),
        ];
        for (action, target, expected) in rows {
            let target = target.map(|(version, kind, name)| OwnerReference {
                api_version: version.to_owned(),
                kind: kind.to_owned(),
                name: name.to_owned(),
                ..OwnerReference::default()
            });
            let command = Command { action: action.to_owned(), target, ..Command::default() };
            let faults: Vec<String> = validate(&command).iter().map(ToString::to_string).collect();
            assert_eq!(faults, expected, "{action}");
        }
    }

    #[test]
    fn a_partial_restart_by_command_is_told_to_be_idle() {
        let warned = |action: &str| warnings(&Command { action: action.to_owned(), ..Command::default() }).len();
        assert_eq!((warned("RestartTask"), warned("RestartJob"), warned("x")), (1, 0, 0));
    }
}
