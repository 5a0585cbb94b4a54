//! The names by which pods of a job find each other. Pure.

use kube::ResourceExt as _;
use ronde_api::{Job, TaskSpec, names};

/// A pod as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub hostname: String,
    pub subdomain: String,
}

impl Host {
    /// Returns the name that resolves from every pod of the job.
    pub fn address(&self) -> String {
        format!("{}.{}", self.hostname, self.subdomain)
    }
}

/// Returns the hosts of a task: one for each pod, or a single one if the template says what it is called.
pub fn of_task(job: &Job, task: &TaskSpec) -> Vec<Host> {
    let spec = task.template.spec.as_ref();
    let given = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
    let subdomain = given(spec.and_then(|spec| spec.subdomain.as_ref())).unwrap_or_else(|| job.name_any());
    if let Some(hostname) = given(spec.and_then(|spec| spec.hostname.as_ref())) {
        return if task.replicas > 0 { vec![Host { hostname, subdomain }] } else { Vec::new() };
    }
    let name = |index| names::pod(&job.name_any(), &task.name, index);
    (0..task.replicas).map(|index| Host { hostname: name(index), subdomain: subdomain.clone() }).collect()
}

/// Returns the task of a name.
pub fn task<'a>(job: &'a Job, name: &str) -> Option<&'a TaskSpec> {
    job.spec.tasks.iter().find(|task| task.name == name)
}

/// Returns the addresses of a task; none if the job has no such task.
pub fn addresses(job: &Job, name: &str) -> Vec<String> {
    task(job, name).map(|task| of_task(job, task).iter().map(Host::address).collect()).unwrap_or_default()
}

/// Returns the address of the first pod of a task.
pub fn first(job: &Job, name: &str) -> Option<String> {
    addresses(job, name).into_iter().next()
}
