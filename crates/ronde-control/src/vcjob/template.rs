//! What may change of the pods of a job that is there: images, resources, priority.
//!
//! Pure. A pod says by an annotation what it was made with. One whose containers have not started is made anew when the job
//! says something else; one that runs stays until it is restarted, by whatever restarts it. A pod without the annotation
//! was made by Volcano, or by hand: it stays.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use ronde_api::{Job, TaskSpec};
use ronde_runtime::pods::{hash, state::PodState};

use super::{
    member::Member,
    memory::{Memory, Scope},
    observed::Observed,
};

/// How many pods are made anew one by one at a time: each takes a line of the status until it is gone.
const SINGLE_MAX: usize = 100;

/// Returns a text that stands for what the pods of a task are made with, as far as that may change.
pub fn mark(job: &Job, task: &TaskSpec) -> String {
    let pod = task.template.spec.as_ref();
    let of_containers = |list: &[Container]| {
        list.iter().map(|container| (container.image.clone(), container.resources.clone())).collect::<Vec<_>>()
    };
    let main = pod.map(|pod| of_containers(&pod.containers));
    let init = pod.map(|pod| of_containers(pod.init_containers.as_deref().unwrap_or_default()));
    let own = pod.and_then(|pod| pod.priority_class_name.as_ref()).filter(|name| !name.is_empty());
    hash::name(&(main, init, own.unwrap_or(&job.spec.priority_class_name)), None)
}

/// Returns a task without what may change of it, to tell whether anything else has.
pub fn without_mutable(task: &TaskSpec) -> TaskSpec {
    let mut fixed = TaskSpec { replicas: 0, min_available: None, ..task.clone() };
    if let Some(pod) = &mut fixed.template.spec {
        pod.priority_class_name = None;
        for container in pod.containers.iter_mut().chain(pod.init_containers.iter_mut().flatten()) {
            (container.image, container.resources) = (None, None);
        }
    }
    fixed
}

/// The pods of a task that were made with something else than the job says.
#[derive(Debug, Default)]
pub struct Outdated<'a> {
    /// Those that have not started.
    pub waiting: Vec<&'a Member>,
    /// How many run.
    pub running: usize,
    /// How many others there are of the task.
    others: usize,
}

impl Outdated<'_> {
    /// Returns what is to be made anew: the task, or single pods if others of it stay.
    pub fn scopes(&self, task: &str) -> Vec<Scope> {
        if self.waiting.is_empty() {
            Vec::new()
        } else if self.running + self.others == 0 {
            vec![Scope::Task(task.to_owned())]
        } else {
            self.waiting.iter().take(SINGLE_MAX).map(|member| Scope::Pod(member.name.clone())).collect()
        }
    }
}

/// Returns the pods that were made with something else than the job says, by task; costs pods.
pub fn outdated<'a>(seen: &'a Observed<'_>, memory: &Memory) -> BTreeMap<&'a str, Outdated<'a>> {
    let tasks = seen.spec().tasks.iter();
    let marks: BTreeMap<&str, String> = tasks.map(|task| (task.name.as_str(), mark(seen.job, task))).collect();
    let mut found: BTreeMap<&str, Outdated<'_>> = BTreeMap::new();
    for member in seen.members.iter().filter(|member| seen.is_present(memory, member)) {
        let Some(mark) = marks.get(member.task.as_str()) else { continue };
        let of_task = found.entry(member.task.as_str()).or_default();
        let is_other = member.template().is_some_and(|made_with| made_with != mark);
        match member.state {
            PodState::Pending if is_other => of_task.waiting.push(member),
            PodState::Running if is_other => of_task.running += 1,
            _ => of_task.others += 1,
        }
    }
    found
}
