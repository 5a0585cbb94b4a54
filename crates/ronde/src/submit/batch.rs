//! Jobs without a launcher, as a job of Volcano: pytorchjob, tfjob, volcanojob.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ronde_api::{Action, Event, Job, JobSpec, LifecyclePolicy, TaskSpec, names, names::plugins};

use super::{
    check::Plain,
    pods::{self, Role},
    state,
};
use crate::args::{BatchArgs, PytorchjobArgs, TfjobArgs, VolcanojobArgs};

/// A group of like pods.
struct Task<'a> {
    name: String,
    replicas: i32,
    /// The job is complete when all pods of this task are.
    decides: bool,
    role: Role<'a>,
}

/// Builds a job of torch.distributed: of the workers, one is the master.
pub fn pytorch(plain: &Plain<'_>, args: &PytorchjobArgs) -> Job {
    let processes = args.nproc_per_node.unwrap_or(args.common.gpus.max(1)).to_string();
    let task = |name: &str, replicas: i32| {
        let env = vec![("PET_NPROC_PER_NODE", processes.clone()), ("PET_NNODES", args.common.workers.to_string())];
        Task { name: name.to_owned(), replicas, decides: name == "master", role: role(plain, "pytorch", env) }
    };
    let tasks = vec![task("master", 1), task("worker", args.common.workers - 1)];
    build(plain, &args.batch, &[plugins::PYTORCH, plugins::SVC], tasks)
}

/// Builds a job of TensorFlow.
pub fn tensorflow(plain: &Plain<'_>, args: &TfjobArgs) -> Job {
    let task = |name: &str, replicas: i32, decides: bool| Task {
        name: name.to_owned(),
        replicas,
        decides,
        role: role(plain, "tensorflow", Vec::new()),
    };
    let mut servers = task("ps", args.ps, false);
    servers.role.has_devices = false;
    servers.role.image = args.ps_image.as_deref().unwrap_or_default();
    (servers.role.cpu, servers.role.memory) = (args.ps_cpu.as_deref(), args.ps_memory.as_deref());
    let mut workers = task("worker", args.common.workers, !args.chief);
    workers.role.image = args.worker_image.as_deref().unwrap_or_default();
    let chief = task("chief", i32::from(args.chief), true);
    let evaluator = task("evaluator", i32::from(args.evaluator), false);
    build(plain, &args.batch, &[plugins::TENSORFLOW, plugins::SVC], vec![chief, servers, workers, evaluator])
}

/// Builds a job of like tasks, one for each image.
pub fn volcano(plain: &Plain<'_>, args: &VolcanojobArgs) -> Job {
    let images: Vec<&str> = match args.task_images.as_slice() {
        [] => vec![plain.image],
        images => images.iter().map(String::as_str).collect(),
    };
    let task = |(index, image): (usize, &&'_ str)| {
        let name = if images.len() == 1 { args.task_name.clone() } else { format!("{}-{index}", args.task_name) };
        (name, (*image).to_owned())
    };
    let named: Vec<(String, String)> = images.iter().enumerate().map(task).collect();
    let tasks = named.iter().map(|(name, image)| {
        let mut role = role(plain, "task", Vec::new());
        role.image = image;
        (role.cpu, role.memory) = (args.task_cpu.as_deref(), args.task_memory.as_deref());
        role.port = args.task_port;
        Task { name: name.clone(), replicas: args.task_replicas, decides: false, role }
    });
    let mut job = build(plain, &args.batch, &[plugins::ENV, plugins::SVC], tasks.collect());
    job.spec.min_available = args.min_available.unwrap_or(job.spec.min_available);
    job
}

fn role<'a>(plain: &'a Plain<'_>, container: &'a str, env: Vec<(&'a str, String)>) -> Role<'a> {
    let selectors = &plain.common.selectors;
    Role { container, has_command: true, has_devices: true, selectors, env, ..Role::default() }
}

fn build(plain: &Plain<'_>, args: &BatchArgs, plugins: &[&str], tasks: Vec<Task<'_>>) -> Job {
    let tasks: Vec<TaskSpec> = tasks
        .iter()
        .filter(|task| task.replicas > 0)
        .map(|task| TaskSpec {
            name: task.name.clone(),
            replicas: task.replicas,
            template: pods::template(plain, &task.role),
            policies: task.decides.then(|| policy(&[Event::TaskCompleted], Action::CompleteJob)).into_iter().collect(),
            ..TaskSpec::default()
        })
        .collect();
    let seconds = |time: ronde_api::Duration| i32::try_from(time.to_std().as_secs()).unwrap_or(i32::MAX);
    let mut spec = JobSpec {
        scheduler_name: plain.common.scheduler.clone().unwrap_or_else(|| names::SCHEDULER.to_owned()),
        // A failure is the job's, as often as it may be tried again.
        policies: vec![policy(&[Event::PodFailed, Event::PodEvicted], Action::RestartJob)],
        max_retry: plain.common.retry.saturating_add(1).max(1),
        plugins: plugins.iter().map(|name| ((*name).to_owned(), Vec::new())).collect(),
        queue: args.queue.clone().unwrap_or_default(),
        ttl_seconds_after_finished: args.ttl_after_finished.map(seconds),
        priority_class_name: plain.common.priority.clone().unwrap_or_default(),
        tasks,
        ..JobSpec::default()
    };
    spec.min_available = i32::try_from(spec.total_replicas()).unwrap_or(i32::MAX);
    Job { metadata: metadata(plain), spec, status: None }
}

fn policy(events: &[Event], action: Action) -> LifecyclePolicy {
    let events = events.iter().map(ToString::to_string).collect();
    LifecyclePolicy { events, action: action.to_string(), ..LifecyclePolicy::default() }
}

fn metadata(plain: &Plain<'_>) -> ObjectMeta {
    let mut labels = pods::labels(plain.job_type, plain.name, &plain.common.labels);
    labels.insert("chart".to_owned(), state::chart(plain.job_type));
    let annotations: BTreeMap<String, String> = plain.common.annotations.iter().cloned().collect();
    ObjectMeta {
        name: Some(plain.name.to_owned()),
        namespace: plain.common.namespace.clone(),
        labels: Some(labels),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        ..ObjectMeta::default()
    }
}
