//! The PodGroup of a training job: the launcher and the least workers, placed together or not at all. Pure.
//!
//! Workers above the minimum are members too: the scheduler places them when there is room, and takes them first.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use ronde_api::{
    PodGroup, PodGroupSpec, TrainingJob,
    names::{self, elastic},
};
use ronde_runtime::pods::{
    controller_ref,
    quota::{Amounts, add, texts, usage_of},
};

use super::pod::Wiring;

/// Returns the name of the group of a job.
pub fn name(job: &TrainingJob) -> String {
    names::pod_group(&job.name_any(), &job.uid().unwrap_or_default())
}

/// Builds the group of a job.
pub fn build(job: &TrainingJob) -> PodGroup {
    let metadata = ObjectMeta {
        name: Some(name(job)),
        namespace: job.namespace(),
        labels: job.metadata.labels.clone(),
        owner_references: Some(vec![controller_ref(job)]),
        ..ObjectMeta::default()
    };
    PodGroup { metadata, spec: spec(job), status: None }
}

/// Returns what the group of a job asks for.
pub fn spec(job: &TrainingJob) -> PodGroupSpec {
    let least = job.spec.worker().min_replicas();
    // What the wiring adds asks for nothing: any settings give the same sum.
    let wiring = Wiring::default();
    let mut total = Amounts::new();
    add(&mut total, &usage_of(&wiring.launcher(job, 0)), 1);
    add(&mut total, &usage_of(&wiring.worker(job, "", 0)), least);
    let class = |template: &k8s_openapi::api::core::v1::PodTemplateSpec| {
        template.spec.as_ref().and_then(|spec| spec.priority_class_name.clone()).filter(|class| !class.is_empty())
    };
    let of_worker = class(&job.spec.worker().template);
    let tasks = [(elastic::LAUNCHER, 1), (elastic::WORKER, least)];
    PodGroupSpec {
        min_member: least.saturating_add(1),
        min_task_member: tasks.map(|(task, least)| (task.to_owned(), least)).into(),
        queue: queue(job).to_owned(),
        priority_class_name: of_worker.or_else(|| class(&job.spec.launcher().template)).unwrap_or_default(),
        min_resources: Some(texts(total)),
        ..PodGroupSpec::default()
    }
}

/// Returns the queue that a job waits in.
pub fn queue(job: &TrainingJob) -> &str {
    let note = job.annotations().get(names::GROUP_QUEUE).or_else(|| job.labels().get(names::GROUP_QUEUE));
    note.filter(|queue| !queue.is_empty()).map_or(names::DEFAULT_QUEUE, String::as_str)
}
