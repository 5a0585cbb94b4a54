//! Jobs: defaults, rules, and what may change after creation.

use std::collections::BTreeSet;

use ronde_text::names::{is_dns1035_label, is_dns1123_label, is_dns1123_subdomain};

use super::{
    Fault, PODS_MAX, Queues, Stage, budget, dependencies,
    fault::Faults,
    policies, queue_in_namespace, tasks, topology,
    unchanged::{differences, without_indexes},
};
use crate::{
    Job, JobSpec, JobVolume, TaskSpec, TopologyPolicy,
    flags::{Flags, Kind},
    names::{self, SCHEDULER, plugins},
};

/// How often a job runs, and containers of a task restart, if that is not said.
const MAX_RETRY: i32 = 3;
/// The name of a pod is a host name.
const HOST_NAME_MAX: usize = 63;
const SCHEDULER_NAME_MAX: usize = 63;
/// What the name of the master task of an mpi job is if the plugin is not told another.
pub const MPI_MASTER: &str = "master";
/// What that plugin can be told.
pub const MPI_FLAGS: &[(&str, Kind)] = &[("master", Kind::Text), ("worker", Kind::Text), ("port", Kind::Number)];
/// The fields that may change after creation.
const MUTABLE: [&str; 4] =
    ["spec.minAvailable", "spec.priorityClassName", "spec.tasks[].replicas", "spec.tasks[].minAvailable"];
/// What of pods may: those that have not started are made anew.
const MUTABLE_OF_PODS: [&str; 5] = [
    "priorityClassName",
    "containers[].image",
    "containers[].resources",
    "initContainers[].image",
    "initContainers[].resources",
];
/// Both, for people.
pub const MUTABLE_FIELDS: &str = "minAvailable, priorityClassName, tasks[].replicas, tasks[].minAvailable, and the \
                                  images, resources and priorityClassName of pods";

/// Sets what the job leaves open. `queue` is what the namespace has for jobs that name none.
pub fn default(job: &mut Job, stage: Stage, queue: Option<&str>) {
    let spec = &mut job.spec;
    for (at, task) in spec.tasks.iter_mut().enumerate() {
        default_task(task, at);
    }
    if stage == Stage::Update {
        return;
    }
    if spec.scheduler_name.is_empty() {
        SCHEDULER.clone_into(&mut spec.scheduler_name);
    }
    spec.queue = queue_in_namespace(&spec.queue, queue).to_owned();
    if spec.max_retry == 0 {
        spec.max_retry = MAX_RETRY;
    }
    if spec.min_available == 0 {
        spec.min_available = spec.tasks.iter().fold(0, |sum, task| sum.saturating_add(task.min_available()));
    }
    default_plugins(spec);
}

fn default_task(task: &mut TaskSpec, at: usize) {
    if task.name.is_empty() {
        task.name = format!("default{at}");
    }
    if task.min_available.is_none() {
        task.min_available = Some(task.min_available());
    }
    if task.max_retry == 0 {
        task.max_retry = MAX_RETRY;
    }
    if let Some(pod) = &mut task.template.spec
        && pod.host_network == Some(true)
        && pod.dns_policy.as_ref().is_none_or(String::is_empty)
    {
        pod.dns_policy = Some("ClusterFirstWithHostNet".to_owned());
    }
}

/// Plugins that others build on.
fn default_plugins(spec: &mut JobSpec) {
    let has = |name: &str| spec.plugins.contains_key(name);
    let with_svc = [plugins::TENSORFLOW, plugins::MPI, plugins::PYTORCH, plugins::RAY].into_iter().any(has);
    let with_ssh = has(plugins::MPI);
    for (name, wanted) in [(plugins::SVC, with_svc), (plugins::SSH, with_ssh)] {
        if wanted {
            spec.plugins.entry(name.to_owned()).or_default();
        }
    }
}

/// Returns what is wrong with a new job, after [`default`].
pub fn validate(job: &Job, queues: &Queues) -> Vec<Fault> {
    let mut faults = Faults::default();
    let queue = &job.spec.queue;
    if is_dns1123_subdomain(queue).is_empty() {
        queues.check_open("job", queue, "spec.queue", &mut faults);
        queues.check_leaf(queue, "spec.queue", &mut faults);
    }
    faults.extend(validate_alone(job, Stage::Create));
    faults.into_vec()
}

/// Returns what is wrong with a change of a job. What was wrong before and has not changed may stay.
pub fn validate_update(old: &Job, new: &Job) -> Vec<Fault> {
    let before = validate_alone(old, Stage::Update);
    let mut faults = Faults::default();
    faults.extend(validate_alone(new, Stage::Update).into_iter().filter(|fault| !before.contains(fault)));
    check_unchanged(&old.spec, &new.spec, &mut faults);
    faults.into_vec()
}

/// Returns what is wrong with a job that was accepted once.
pub fn validate_accepted(job: &Job) -> Vec<Fault> {
    validate_alone(job, Stage::Update)
}

/// The rules that need nothing but the job.
fn validate_alone(job: &Job, stage: Stage) -> Vec<Fault> {
    let mut faults = Faults::default();
    let spec = &job.spec;
    check_names(job, &mut faults);
    budget::check(job.metadata.annotations.as_ref(), "metadata", &mut faults);
    check_numbers(spec, &mut faults);
    faults.name("spec.queue", &spec.queue, is_dns1123_subdomain);
    if !spec.priority_class_name.is_empty() {
        faults.name("spec.priorityClassName", &spec.priority_class_name, is_dns1123_subdomain);
    }
    if spec.scheduler_name.len() > SCHEDULER_NAME_MAX {
        faults.invalid("spec.schedulerName", format!("has more than {SCHEDULER_NAME_MAX} characters"));
    }
    check_volumes(&spec.volumes, stage, &mut faults);
    tasks::check(&spec.tasks, &mut faults);
    dependencies::check(&spec.tasks, &mut faults);
    policies::check(&spec.policies, "spec.policies", &mut faults);
    check_plugins(spec, &mut faults);
    topology::check(spec.network_topology.as_ref(), "spec.networkTopology", &mut faults);
    faults.into_vec()
}

fn check_numbers(spec: &JobSpec, faults: &mut Faults) {
    faults.at_least("spec.minAvailable", spec.min_available, 0);
    let total = spec.total_replicas();
    if i64::from(spec.min_available) > total {
        let why = "job 'minAvailable' should not be greater than total replicas in tasks";
        let why = format!("{why}: {} > {total}", spec.min_available);
        faults.invalid("spec.minAvailable", why);
    }
    let is_told = spec.tasks.iter().any(|task| task.replicas > PODS_MAX);
    if total > i64::from(PODS_MAX) && !is_told {
        faults.invalid("spec.tasks", format!("have {total} pods in total, at most {PODS_MAX} are allowed"));
    }
    faults.at_least("spec.maxRetry", spec.max_retry, 0);
    if let Some(seconds) = spec.ttl_seconds_after_finished {
        faults.at_least("spec.ttlSecondsAfterFinished", seconds, 0);
    }
    if let Some(least) = spec.min_success {
        faults.at_least("spec.minSuccess", least, 1);
    }
}

/// Pods are hosts, and with the plugin svc they have names in the DNS below a Service that is called like the job.
fn check_names(job: &Job, faults: &mut Faults) {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let is_in_dns = job.spec.plugins.contains_key(plugins::SVC);
    if is_in_dns {
        faults.name("metadata.name", name, is_dns1035_label);
    } else if name.len() > HOST_NAME_MAX {
        faults.invalid("metadata.name", format!("has {} characters, at most {HOST_NAME_MAX} are allowed", name.len()));
    }
    if name.len() > HOST_NAME_MAX {
        return;
    }
    for (at, task) in job.spec.tasks.iter().enumerate() {
        // A wrong name of a task is told as such.
        if task.replicas < 1 || !is_dns1123_label(&task.name).is_empty() {
            continue;
        }
        let pod = names::pod(name, &task.name, task.replicas - 1);
        if pod.len() > HOST_NAME_MAX {
            let why = format!("its last pod would be named {pod:?}, which has {} characters", pod.len());
            faults.invalid(format!("spec.tasks[{at}].name"), format!("{why}; at most {HOST_NAME_MAX} are allowed"));
        }
    }
}

fn check_volumes(volumes: &[JobVolume], stage: Stage, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (at, volume) in volumes.iter().enumerate() {
        let path = format!("spec.volumes[{at}]");
        let mount = volume.mount_path.as_str();
        if mount.is_empty() {
            faults.required(format!("{path}.mountPath"), "must be the path at which containers mount the volume");
        } else if !seen.insert(mount) {
            faults.duplicate(format!("{path}.mountPath"), format!("duplicated mountPath {mount:?}"));
        }
        if mount.contains(':') {
            faults.invalid(format!("{path}.mountPath"), format!("{mount:?} contains ':'"));
        }
        match (volume.volume_claim_name.as_str(), &volume.volume_claim) {
            ("", None) => {
                faults
                    .required(format!("{path}.volumeClaim"), "either VolumeClaim or VolumeClaimName must be specified");
            }
            ("", Some(_)) => {}
            (name, None) => faults.name(&format!("{path}.volumeClaimName"), name, is_dns1123_subdomain),
            // Later the controller notes the name of the claim that it has made.
            (_, Some(_)) if stage == Stage::Update => {}
            (_, Some(_)) => {
                let why = "cannot be combined with volumeClaimName: set one of them";
                faults.invalid(format!("{path}.volumeClaim"), why);
            }
        }
    }
}

fn check_plugins(spec: &JobSpec, faults: &mut Faults) {
    for name in spec.plugins.keys().filter(|name| !plugins::ALL.contains(&name.as_str())) {
        let known = plugins::ALL.join(", ");
        faults.not_found(
            format!("spec.plugins.{name}"),
            format!("unable to find job plugin: {name:?} is not one of {known}"),
        );
    }
    let Some(arguments) = spec.plugins.get(plugins::MPI) else { return };
    let master = Flags::parse(arguments, MPI_FLAGS).text("master", MPI_MASTER);
    if !spec.tasks.is_empty() && !spec.tasks.iter().any(|task| task.name == master) {
        faults.invalid("spec.plugins.mpi", format!("needs a task {master:?}, from which the workers are started"));
    }
}

fn check_unchanged(old: &JobSpec, new: &JobSpec, faults: &mut Faults) {
    let written = |spec: &JobSpec| serde_json::to_value(spec).unwrap_or_default();
    for path in differences(&written(old), &written(new), "spec") {
        let plain = without_indexes(&path);
        if plain == "spec.tasks" {
            faults.forbidden(path, "job updates may not add or remove tasks");
        } else if !may_change(&plain) && !is_claim_made(&path, old) {
            faults.forbidden(path, format!("job updates may not change fields other than {MUTABLE_FIELDS}"));
        }
    }
}

/// Tells whether the field at a path without indexes may change, or a part of it.
fn may_change(path: &str) -> bool {
    let is_within =
        |path: &str, field: &str| path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let of_pods = path.strip_prefix("spec.tasks[].template.spec.");
    MUTABLE.contains(&path) || of_pods.is_some_and(|path| MUTABLE_OF_PODS.iter().any(|field| is_within(path, field)))
}

/// Whether a path is that of a claim's name which the controller notes when it has made the claim.
fn is_claim_made(path: &str, old: &JobSpec) -> bool {
    let volumes = old.volumes.iter().enumerate();
    let mut open = volumes.filter(|(_, volume)| volume.volume_claim_name.is_empty());
    open.any(|(at, _)| path == format!("spec.volumes[{at}].volumeClaimName"))
}

/// Returns what is taken and has no effect, or not the one that it seems to have.
pub fn warnings(job: &Job) -> Vec<String> {
    let spec = &job.spec;
    let mut warnings = Vec::new();
    for (at, task) in spec.tasks.iter().enumerate() {
        let path = format!("spec.tasks[{at}]");
        warnings.extend(policies::warnings(&task.policies, &format!("{path}.policies")));
        if !task.topology_policy.is_empty() && task.topology_policy != TopologyPolicy::None.as_str() {
            let effect = "is set on the pods, but scheduling ignores NUMA topology";
            warnings.push(format!("{path}.topologyPolicy: {effect}"));
        }
    }
    if let Some(least) = spec.min_success.filter(|least| i64::from(*least) > spec.total_replicas()) {
        let total = spec.total_replicas();
        warnings.push(format!("spec.minSuccess: {least} pods cannot succeed: the job has {total}"));
    }
    warnings
}

#[cfg(test)]
mod tests;
