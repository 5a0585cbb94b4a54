//! The pods of a job: the finalizer by which they are counted, and what an index adds to them.
//!
//! Pure. Names, annotations and variables are those of Kubernetes.

use k8s_openapi::api::{
    batch::v1::{Job, JobSpec},
    core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
};
use kube::ResourceExt as _;
use ronde_runtime::pods;

use super::policy::{self, Failure};

/// Keeps a pod until it has been counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod, as annotation and as label.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// A generated name keeps this much of its prefix; the API server adds five letters to it.
const GENERATED_PREFIX_MAX: usize = 58;
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Tells whether a pod has not been counted yet.
pub fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// Returns the index of a pod.
pub fn index(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// Returns how often the index of a pod had failed before it, in a way that counts.
pub fn failures(pod: &Pod) -> i32 {
    count(pod, FAILURES)
}

/// Returns how often the index of a pod had failed before it.
pub fn all_failures(pod: &Pod) -> i32 {
    failures(pod).saturating_add(count(pod, IGNORED_FAILURES))
}

fn count(pod: &Pod, annotation: &str) -> i32 {
    pod.annotations().get(annotation).and_then(|text| text.parse().ok()).filter(|count| *count >= 0).unwrap_or(0)
}

/// Builds a pod of a job.
pub fn build(job: &Job, spec: &JobSpec) -> Pod {
    let mut pod = pods::build(&spec.template, job);
    let finalizers = pod.finalizers_mut();
    if !finalizers.iter().any(|finalizer| finalizer == TRACKING) {
        finalizers.push(TRACKING.to_owned());
    }
    pod
}

/// Builds the pod of an index; `before` is the failed one that it replaces.
pub fn build_index(job: &Job, spec: &JobSpec, index: i32, before: Option<&Pod>) -> Pod {
    let mut pod = build(job, spec);
    pod.metadata.generate_name = Some(generate_name(&job.name_any(), index));
    pod.labels_mut().insert(INDEX.to_owned(), index.to_string());
    pod.annotations_mut().insert(INDEX.to_owned(), index.to_string());
    if spec.backoff_limit_per_index.is_some() {
        count_failures(spec, &mut pod, before);
    }
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{}-{index}", job.name_any()));
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()).for_each(add_variable);
    pod
}

/// A pod carries the failures of its index on from the one that it replaces.
fn count_failures(spec: &JobSpec, pod: &mut Pod, before: Option<&Pod>) {
    let (mut counted, mut ignored) = before.map_or((0, 0), |pod| (failures(pod), count(pod, IGNORED_FAILURES)));
    match before.map(|pod| policy::judge(spec, pod)) {
        None => {}
        Some(Failure::Ignored) => ignored += 1,
        Some(_) => counted += 1,
    }
    pod.annotations_mut().insert(FAILURES.to_owned(), counted.to_string());
    if ignored > 0 {
        pod.annotations_mut().insert(IGNORED_FAILURES.to_owned(), ignored.to_string());
    }
}

fn generate_name(job: &str, index: i32) -> String {
    let end = format!("-{index}-");
    let room = GENERATED_PREFIX_MAX.saturating_sub(end.len());
    let start = if job.len() + end.len() > GENERATED_PREFIX_MAX { &job[..job.floor_char_boundary(room)] } else { job };
    format!("{start}{end}")
}

fn add_variable(container: &mut Container) {
    let env = container.env.get_or_insert_default();
    if env.iter().any(|variable| variable.name == INDEX_VARIABLE) {
        return;
    }
    let field = ObjectFieldSelector { api_version: None, field_path: format!("metadata.labels['{INDEX}']") };
    let value_from = Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() });
    env.push(EnvVar { name: INDEX_VARIABLE.to_owned(), value: None, value_from });
}
