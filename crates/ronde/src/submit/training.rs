//! Jobs with a launcher, as a TrainingJob: etjob, and those of a fixed size that something else than Horovod starts.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ronde_api::{
    AttachMode, EtReplicaSpecs, LauncherSpec, RestartPolicy, TrainingJob, TrainingJobSpec, WorkerSpec,
    names::{self, elastic},
};

use super::{
    check::Plain,
    pods::{self, Role},
    state,
};
use crate::{
    arena::JobType,
    args::{ElasticArg, EtjobArgs, LauncherArgs},
};

const CONTAINER: &str = "et";
const SPOT: &str = "job-supervisor.kube-ai.io/spot-instance";
const REQUESTED_GPUS: &str = "requestGPUsOfJobOwner";
/// What finds the pod of the launcher, for TensorBoard to be beside it.
const MASTER: &str = "master-pod-name";
/// Where the controller keeps the hosts in the form of Open MPI and DeepSpeed.
const HOSTS: &str = "/job/hostfile";

/// How many workers a job has, and what may become of that.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub min: i32,
    pub workers: i32,
    pub max: i32,
}

/// Builds an elastic job.
pub fn elastic(plain: &Plain<'_>, args: &EtjobArgs) -> TrainingJob {
    let size = Size { min: args.min_workers, workers: args.common.workers, max: args.max_workers };
    let mut job = build(plain, &args.launcher, size);
    job.spec.et_replica_specs.worker.restart_policy = args.worker_restart_policy.clone().unwrap_or_default();
    let mut note = |is_on: bool, key: &str, value: String| {
        let notes = job.metadata.annotations.get_or_insert_default();
        notes.extend(is_on.then(|| (key.to_owned(), value)));
    };
    note(args.elastic == ElasticArg::Auto, elastic::ELASTIC, elastic::AUTO.to_owned());
    note(args.spot_instance, SPOT, "true".to_owned());
    note(args.max_wait_time > 0, elastic::MAX_WAIT_TIME, args.max_wait_time.to_string());
    job
}

/// Builds a job whose number of workers is fixed.
pub fn fixed(plain: &Plain<'_>, launcher: &LauncherArgs) -> TrainingJob {
    let workers = plain.common.workers;
    build(plain, launcher, Size { min: workers, workers, max: workers })
}

fn build(plain: &Plain<'_>, launcher: &LauncherArgs, size: Size) -> TrainingJob {
    let retry = plain.common.retry;
    let restart = launcher.job_restart_policy.clone();
    let restart = restart.or_else(|| (retry > 0).then(|| RestartPolicy::OnFailure.to_string()));
    let spec = TrainingJobSpec {
        clean_pod_policy: launcher.clean_pod_policy.clone(),
        et_replica_specs: replicas(plain, launcher, size),
        launcher_attach_mode: launcher.ssh_secret.as_ref().map(|_| AttachMode::Ssh.to_string()).unwrap_or_default(),
        slots_per_worker: launcher.slots_per_worker,
        backoff_limit: restart.as_ref().map(|_| if retry > 0 { retry } else { launcher.job_backoff_limit }),
        restart_policy: restart.unwrap_or_default(),
    };
    TrainingJob { metadata: metadata(plain, launcher), spec, status: None }
}

fn metadata(plain: &Plain<'_>, launcher: &LauncherArgs) -> ObjectMeta {
    let common = plain.common;
    let mut labels = pods::labels(plain.job_type, plain.name, &common.labels);
    labels.extend([("chart".to_owned(), state::chart(plain.job_type)), ("heritage".to_owned(), "Helm".to_owned())]);
    let mut annotations: BTreeMap<String, String> = common.annotations.iter().cloned().collect();
    let gpus = i64::from(common.workers) * i64::from(common.gpus);
    annotations.insert(REQUESTED_GPUS.to_owned(), gpus.to_string());
    let mut note = |key: &str, value: &Option<String>| {
        annotations.extend(value.iter().map(|value| (key.to_owned(), value.clone())));
    };
    note(elastic::SSH_SECRET, &launcher.ssh_secret);
    note(names::GROUP_QUEUE, &launcher.queue);
    ObjectMeta {
        name: Some(plain.name.to_owned()),
        namespace: common.namespace.clone(),
        labels: Some(labels),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
}

fn replicas(plain: &Plain<'_>, args: &LauncherArgs, size: Size) -> EtReplicaSpecs {
    let env = env(plain, args, size);
    let launcher = Role {
        container: CONTAINER,
        has_command: true,
        selectors: &args.launcher_selectors,
        annotations: &args.launcher_annotations,
        labels: vec![(MASTER, elastic::launcher(plain.name))],
        env: env.iter().cloned().chain(starter_env(plain.job_type)).collect(),
        ..Role::default()
    };
    let worker = Role {
        container: CONTAINER,
        has_devices: true,
        selectors: &plain.common.selectors,
        annotations: &args.worker_annotations,
        env,
        ..Role::default()
    };
    EtReplicaSpecs {
        launcher: LauncherSpec {
            replicas: Some(1),
            template: pods::template(plain, &launcher),
            ..LauncherSpec::default()
        },
        worker: WorkerSpec {
            replicas: Some(size.workers),
            max_replicas: Some(size.max),
            min_replicas: Some(size.min),
            template: pods::template(plain, &worker),
            ..WorkerSpec::default()
        },
    }
}

/// The variables that commands are written with. `gpus` is the ranks of a worker and so at least 1: a product with it is
/// never nothing.
fn env(plain: &Plain<'_>, args: &LauncherArgs, size: Size) -> Vec<(&'static str, String)> {
    let gpus = i32::try_from(plain.common.gpus).unwrap_or(i32::MAX);
    let slots = args.slots_per_worker.unwrap_or(gpus.max(1));
    let numbers = [("workers", size.workers), ("gpus", slots), ("maxWorkers", size.max), ("minWorkers", size.min)];
    numbers.map(|(name, number)| (name, number.to_string())).into()
}

/// What the program that starts the ranks wants to know.
fn starter_env(job_type: JobType) -> Vec<(&'static str, String)> {
    let of_mpi = [
        ("OMPI_MCA_orte_default_hostfile", HOSTS),
        ("PRTE_MCA_prte_default_hostfile", HOSTS),
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ];
    let of_mpi = of_mpi.map(|(name, value)| (name, value.to_owned()));
    if job_type == JobType::Mpijob { of_mpi.into() } else { Vec::new() }
}
