//! Training jobs: defaults, rules, and what may change after creation.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use ronde_text::names::is_dns1035_label;

use super::{Fault, PODS_MAX, budget, fault::Faults, unchanged::differences};
use crate::{
    AttachMode, CleanPodPolicy, LauncherSpec, RestartPolicy, TrainingJob, TrainingJobSpec, WorkerSpec,
    names::elastic::{AUTO, COOLDOWN, ELASTIC, JOB_NAME_MAX, worker},
};

const BACKOFF_LIMIT: i32 = 6;
/// The name of a worker is a host name.
const HOST_NAME_MAX: usize = 63;
/// What may not change after creation: pods that run would not know.
const FIXED: [&str; 4] = [
    "spec.etReplicaSpecs.launcher.template",
    "spec.etReplicaSpecs.worker.template",
    "spec.launcherAttachMode",
    "spec.slotsPerWorker",
];

/// Sets what the job leaves open.
pub fn default(job: &mut TrainingJob) {
    let spec = &mut job.spec;
    if spec.restart_policy.is_empty() {
        RestartPolicy::Never.as_str().clone_into(&mut spec.restart_policy);
    }
    spec.backoff_limit.get_or_insert(BACKOFF_LIMIT);
    let worker = &mut spec.et_replica_specs.worker;
    let replicas = *worker.replicas.get_or_insert(1);
    worker.min_replicas.get_or_insert(replicas);
}

/// Returns what is wrong with a job, after [`default`].
pub fn validate(job: &TrainingJob) -> Vec<Fault> {
    let mut faults = Faults::default();
    check_name(job, &mut faults);
    check_words(&job.spec, &mut faults);
    if let Some(slots) = job.spec.slots_per_worker {
        faults.at_least("spec.slotsPerWorker", slots, 1);
    }
    if let Some(limit) = job.spec.backoff_limit {
        faults.at_least("spec.backoffLimit", limit, 0);
    }
    if let Err(why) = job.cooldown() {
        faults.invalid(format!("metadata.annotations[{COOLDOWN}]"), why);
    }
    for (role, template) in [("launcher", &job.spec.launcher().template), ("worker", &job.spec.worker().template)] {
        let annotations = template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
        budget::check(annotations, &format!("spec.etReplicaSpecs.{role}.template.metadata"), &mut faults);
    }
    check_launcher(job.spec.launcher(), &mut faults);
    check_worker(job.spec.worker(), &mut faults);
    faults.into_vec()
}

/// Returns what is wrong with a change of a job. What was wrong before and has not changed may stay.
pub fn validate_update(old: &TrainingJob, new: &TrainingJob) -> Vec<Fault> {
    let before = validate(old);
    let mut faults = Faults::default();
    faults.extend(validate(new).into_iter().filter(|fault| !before.contains(fault)));
    let written = |spec: &TrainingJobSpec| serde_json::to_value(spec).unwrap_or_default();
    for path in differences(&written(&old.spec), &written(&new.spec), "spec") {
        if FIXED.into_iter().any(|fixed| is_within(&path, fixed)) {
            faults.forbidden(path, "may not change after creation");
        }
    }
    faults.into_vec()
}

/// Tells whether a path is a field or a part of it.
fn is_within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// Returns what is taken and has no effect, or not the one that it seems to have.
pub fn warnings(job: &TrainingJob) -> Vec<String> {
    let mut warnings = Vec::new();
    let containers = containers(&job.spec.launcher().template);
    if containers.first().is_some_and(|container| container.command.as_ref().is_none_or(Vec::is_empty)) {
        let effect = "without a command the image's own runs, which is not told when the hosts change";
        warnings.push(format!("spec.etReplicaSpecs.launcher.template.spec.containers[0].command: {effect}"));
    }
    let mode = job.metadata.annotations.as_ref().and_then(|notes| notes.get(ELASTIC));
    if let Some(mode) = mode.filter(|mode| *mode != AUTO) {
        warnings.push(format!("metadata.annotations[{ELASTIC}]: {mode:?} has no effect; the only mode is {AUTO:?}"));
    }
    warnings
}

fn check_name(job: &TrainingJob, faults: &mut Faults) {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() {
        return;
    }
    if name.len() > JOB_NAME_MAX {
        faults.invalid("metadata.name", format!("has {} characters, at most {JOB_NAME_MAX} are allowed", name.len()));
        return;
    }
    faults.name("metadata.name", name, is_dns1035_label);
    let last = worker(name, job.spec.worker().replicas() - 1);
    if last.len() > HOST_NAME_MAX {
        let why = format!("the last worker would be named {last:?}, which has {} characters", last.len());
        faults.invalid("spec.etReplicaSpecs.worker.replicas", format!("{why}; at most {HOST_NAME_MAX} are allowed"));
    }
}

fn check_words(spec: &TrainingJobSpec, faults: &mut Faults) {
    let policies = CleanPodPolicy::ALL.iter().map(|word| word.as_str());
    faults.one_of("spec.cleanPodPolicy", &spec.clean_pod_policy, policies);
    let modes = AttachMode::ALL.iter().map(|word| word.as_str());
    faults.one_of("spec.launcherAttachMode", &spec.launcher_attach_mode, modes);
    let restarts = [RestartPolicy::Never, RestartPolicy::OnFailure].map(RestartPolicy::as_str);
    faults.one_of("spec.restartPolicy", &spec.restart_policy, restarts);
    for (role, policy) in [("launcher", &spec.launcher().restart_policy), ("worker", &spec.worker().restart_policy)] {
        let words = RestartPolicy::ALL.iter().map(|word| word.as_str());
        faults.one_of(format!("spec.etReplicaSpecs.{role}.restartPolicy"), policy, words);
    }
}

fn check_launcher(launcher: &LauncherSpec, faults: &mut Faults) {
    let path = "spec.etReplicaSpecs.launcher";
    if let Some(replicas) = launcher.replicas.filter(|replicas| *replicas != 1) {
        faults.invalid(format!("{path}.replicas"), format!("{replicas} is not 1: a job has one launcher"));
    }
    check_template(&launcher.template, path, faults);
}

fn check_worker(worker: &WorkerSpec, faults: &mut Faults) {
    let path = "spec.etReplicaSpecs.worker";
    let replicas = worker.replicas();
    faults.at_least(format!("{path}.replicas"), replicas, 1);
    faults.at_most(format!("{path}.replicas"), replicas, PODS_MAX);
    if let Some(least) = worker.min_replicas {
        faults.at_least(format!("{path}.minReplicas"), least, 1);
        if least > replicas {
            faults
                .invalid(format!("{path}.minReplicas"), format!("{least} is more than replicas, which is {replicas}"));
        }
    }
    if let Some(most) = worker.max_replicas {
        faults.at_least(format!("{path}.maxReplicas"), most, 1);
        faults.at_most(format!("{path}.maxReplicas"), most, PODS_MAX);
        if most < replicas {
            faults.invalid(format!("{path}.maxReplicas"), format!("{most} is less than replicas, which is {replicas}"));
        }
    }
    check_template(&worker.template, path, faults);
}

fn check_template(template: &PodTemplateSpec, path: &str, faults: &mut Faults) {
    if containers(template).is_empty() {
        faults.required(format!("{path}.template.spec.containers"), "must have at least one container");
    }
}

fn containers(template: &PodTemplateSpec) -> &[k8s_openapi::api::core::v1::Container] {
    template.spec.as_ref().map_or(&[], |spec| &spec.containers)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::fixtures::check, *};

    fn job(name: &str, change: impl FnOnce(&mut Value)) -> TrainingJob {
        let template = json!({"spec": {"containers": [{"name": "et", "image": "i", "command": ["train"]}]}});
        let mut spec = json!({"etReplicaSpecs": {
            "launcher": {"template": template}, "worker": {"replicas": 3, "template": template},
        }});
        change(&mut spec);
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a training job")
    }

    #[test]
    fn what_is_left_open_is_defaulted() {
        let mut defaulted = job("mnist", |_| {});
        default(&mut defaulted);
        let (spec, worker) = (&defaulted.spec, defaulted.spec.worker());
        assert_eq!((spec.restart_policy.as_str(), spec.backoff_limit), ("Never", Some(6)));
        assert_eq!((worker.replicas(), worker.min_replicas, worker.max_replicas), (3, Some(3), None));
        let once = defaulted.clone();
        default(&mut defaulted);
        assert_eq!(defaulted, once, "defaulting twice changes nothing");
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let row = |what: &str, name: &str, change: &dyn Fn(&mut Value), expected: &[&str]| {
            check(what, &validate(&job(name, |spec| change(spec))), expected);
        };
        row("a good one", "mnist", &|_| {}, &[]);
        row("a long name", &"a".repeat(49), &|_| {}, &[]);
        row("too long a name", &"a".repeat(50), &|_| {}, &["metadata.name: has 50 characters, at most 49 are allowed"]);
        row(
            "numbers that contradict each other",
            "mnist",
            &|spec| {
                spec["etReplicaSpecs"]["worker"]["minReplicas"] = 4.into();
                spec["etReplicaSpecs"]["worker"]["maxReplicas"] = 2.into();
                spec["etReplicaSpecs"]["launcher"]["replicas"] = 2.into();
            },
            &[
                "spec.etReplicaSpecs.launcher.replicas: 2 is not 1: a job has one launcher",
                "spec.etReplicaSpecs.worker.minReplicas: 4 is more than replicas, which is 3",
                "spec.etReplicaSpecs.worker.maxReplicas: 2 is less than replicas, which is 3",
            ],
        );
        row(
            "a budget of disruptions that is none",
            "mnist",
            &|spec| {
                let annotations = json!({"annotations": {"volcano.sh/jdb-max-unavailable": "0"}});
                spec["etReplicaSpecs"]["worker"]["template"]["metadata"] = annotations;
            },
            &[
                "spec.etReplicaSpecs.worker.template.metadata.annotations[volcano.sh/jdb-max-unavailable]: \"0\" must be a \
                 positive integer, or a percentage from 1% to 99%",
            ],
        );
        row(
            "as many as there may be",
            "mnist",
            &|spec| spec["etReplicaSpecs"]["worker"]["replicas"] = 10_000.into(),
            &[],
        );
        row(
            "more than a controller can hold",
            "mnist",
            &|spec| {
                spec["etReplicaSpecs"]["worker"]["replicas"] = 10_001.into();
                spec["etReplicaSpecs"]["worker"]["maxReplicas"] = i32::MAX.into();
            },
            &[
                "spec.etReplicaSpecs.worker.replicas: 10001 should be less than or equal to 10000",
                "spec.etReplicaSpecs.worker.maxReplicas: 2147483647 should be less than or equal to 10000",
            ],
        );
        row(
            "words that are none, and nothing to run",
            "mnist",
            &|spec| {
                spec["cleanPodPolicy"] = "Some".into();
                spec["restartPolicy"] = "Always".into();
                spec["launcherAttachMode"] = "telnet".into();
                spec["etReplicaSpecs"]["worker"] = json!({"replicas": 0});
            },
            &[
                "spec.cleanPodPolicy: \"Some\" is not one of All, Running, None",
                "spec.launcherAttachMode: \"telnet\" is not one of kubexec, ssh",
                "spec.restartPolicy: \"Always\" is not one of Never, OnFailure",
                "spec.etReplicaSpecs.worker.replicas: 0 should be greater than or equal to 1",
                "spec.etReplicaSpecs.worker.template.spec.containers: must have at least one container",
            ],
        );
    }

    #[test]
    fn a_name_that_is_no_host_name_is_refused() {
        let faults = validate(&job("Mnist.1", |_| {}));
        assert!(faults.iter().any(|fault| fault.path == "metadata.name"), "{faults:?}");
    }

    #[test]
    fn what_pods_would_not_hear_of_may_not_change() {
        let old = job("mnist", |_| {});
        let new = job("mnist", |spec| {
            spec["etReplicaSpecs"]["worker"]["maxReplicas"] = 9.into();
            spec["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0]["image"] = "j".into();
        });
        check(
            "a change",
            &validate_update(&old, &new),
            &["spec.etReplicaSpecs.launcher.template.spec.containers[0].image: may not change after creation"],
        );
    }

    #[test]
    fn the_number_of_workers_may_change_within_its_bounds() {
        let sized = |replicas: i32| {
            job("mnist", |spec| {
                let worker = &mut spec["etReplicaSpecs"]["worker"];
                worker["replicas"] = replicas.into();
                (worker["minReplicas"], worker["maxReplicas"]) = (2.into(), 4.into());
            })
        };
        let row = |replicas, expected: &[&str]| {
            check(&format!("{replicas} workers"), &validate_update(&sized(3), &sized(replicas)), expected);
        };
        row(2, &[]);
        row(4, &[]);
        let path = "spec.etReplicaSpecs.worker";
        row(1, &[&format!("{path}.minReplicas: 2 is more than replicas, which is 1")]);
        row(5, &[&format!("{path}.maxReplicas: 4 is less than replicas, which is 5")]);
    }

    #[test]
    fn a_cooldown_is_a_time_within_limits() {
        let row = |text: &str, expected: &[&str]| {
            let mut auto = job("mnist", |_| {});
            auto.metadata.annotations = Some([(COOLDOWN.to_owned(), text.to_owned())].into());
            check(text, &validate(&auto), expected);
        };
        row("1s", &[]);
        row("24h", &[]);
        let path = "metadata.annotations[ronde.dev/elastic-cooldown]";
        row("0s", &[&format!("{path}: 0s is not between 1s and 24h0m0s")]);
        row("25h", &[&format!("{path}: 25h is not between 1s and 24h0m0s")]);
        row("soon", &[&format!("{path}: \"soon\" is not a duration such as `90s` or `1h30m`")]);
    }

    #[test]
    fn what_has_no_effect_is_told() {
        let mut odd = job("mnist", |spec| {
            spec["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0]["command"] = json!([]);
        });
        odd.metadata.annotations = Some([(ELASTIC.to_owned(), "on".to_owned())].into());
        assert_eq!(warnings(&odd).len(), 2);
        assert!(warnings(&job("mnist", |_| {})).is_empty());
    }
}
