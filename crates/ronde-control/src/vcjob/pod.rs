//! Builds the pods of a job: names, labels and annotations are those of Volcano, which users and schedulers rely on.
//!
//! Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::ResourceExt as _;
use ronde_api::{Job, TaskSpec, TopologyPolicy, names};
use ronde_runtime::pods;

use super::{
    member::TRACKING,
    occurrence::partition_of,
    plugins::{Plugins, Seat},
    template, volumes,
};

type Notes = BTreeMap<String, String>;

/// Builds the pod of an index.
pub fn build(job: &Job, task: &TaskSpec, index: i32, plugins: &Plugins<'_>) -> Pod {
    let mut pod = pods::build(&task.template, job);
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(names::pod(&job.name_any(), &task.name, index));
    pod.metadata.finalizers.get_or_insert_default().push(TRACKING.to_owned());
    pod.labels_mut().extend(labels(job, task, index));
    pod.annotations_mut().extend(annotations(job, task, index));
    let spec = pod.spec.get_or_insert_default();
    complete(job, spec);
    pods::trouble::keep_last_lines(spec);
    volumes::mount(job, spec);
    plugins.wire(&Seat { job, task, index }, &mut pod);
    pod
}

/// Marks a pod of a queue that extends to other clusters, for who sends jobs there.
pub fn mark_for_forwarding(pod: &mut Pod) {
    pod.labels_mut().insert(names::JOB_FORWARDING.to_owned(), "true".to_owned());
    pod.annotations_mut().insert(names::JOB_FORWARDING.to_owned(), "true".to_owned());
}

fn complete(job: &Job, spec: &mut PodSpec) {
    let scheduler =
        if job.spec.scheduler_name.is_empty() { names::SCHEDULER } else { job.spec.scheduler_name.as_str() };
    let given = |field: &Option<String>| field.as_ref().is_some_and(|text| !text.is_empty());
    if !given(&spec.scheduler_name) {
        spec.scheduler_name = Some(scheduler.to_owned());
    }
    if !given(&spec.priority_class_name) && !job.spec.priority_class_name.is_empty() {
        spec.priority_class_name = Some(job.spec.priority_class_name.clone());
    }
}

fn labels(job: &Job, task: &TaskSpec, index: i32) -> Notes {
    let mut labels = notes([
        (names::TASK_INDEX, index.to_string()),
        (names::JOB_NAME, job.name_any()),
        (names::TASK_SPEC, task.name.clone()),
        (names::JOB_NAMESPACE, job.namespace().unwrap_or_default()),
        (names::QUEUE_NAME, queue(job).to_owned()),
    ]);
    copy(job.labels(), &mut labels, &[names::PREEMPTABLE, names::COOLDOWN_TIME]);
    if let Some(partition) = partition_of(task, index) {
        labels.insert(names::PARTITION_ID.to_owned(), partition.to_string());
    }
    labels
}

fn annotations(job: &Job, task: &TaskSpec, index: i32) -> Notes {
    let status = job.status.clone().unwrap_or_default();
    let mut annotations = notes([
        (names::TASK_INDEX, index.to_string()),
        (names::TASK_SPEC, task.name.clone()),
        (names::GROUP_NAME, names::pod_group(&job.name_any(), &job.uid().unwrap_or_default())),
        (names::JOB_NAME, job.name_any()),
        (names::QUEUE_NAME, queue(job).to_owned()),
        (names::JOB_VERSION, status.version.to_string()),
        (names::TEMPLATE_UID, format!("{}-{}", job.name_any(), task.name)),
        (names::JOB_RETRY_COUNT, status.retry_count.to_string()),
        (names::POD_TEMPLATE, template::mark(job, task)),
    ]);
    if task.topology_policy.parse().is_ok_and(|policy: TopologyPolicy| policy != TopologyPolicy::None) {
        annotations.insert(names::NUMA_TOPOLOGY_POLICY.to_owned(), task.topology_policy.clone());
    }
    copy(job.annotations(), &mut annotations, &[names::PREEMPTABLE, names::COOLDOWN_TIME, names::REVOCABLE_ZONE]);
    let budget_in = |notes: &Notes| {
        [names::JDB_MIN_AVAILABLE, names::JDB_MAX_UNAVAILABLE].into_iter().find(|key| notes.contains_key(*key))
    };
    let own = task.template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    // A pod has one budget; that of its task is closer.
    if own.and_then(budget_in).is_none() {
        copy(job.annotations(), &mut annotations, budget_in(job.annotations()).as_slice());
    }
    annotations
}

/// Returns the queue of a job.
pub fn queue(job: &Job) -> &str {
    if job.spec.queue.is_empty() { names::DEFAULT_QUEUE } else { &job.spec.queue }
}

fn notes<const N: usize>(pairs: [(&str, String); N]) -> Notes {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn copy(from: &Notes, to: &mut Notes, keys: &[&str]) {
    let found = keys.iter().filter_map(|key| from.get_key_value(*key));
    to.extend(found.map(|(key, value)| (key.clone(), value.clone())));
}
