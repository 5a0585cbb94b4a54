//! A cluster as it is, in the words of the simulator: what runs, what waits, and for how long it is said to run. Pure.
//!
//! A gang is simulated from its PodGroup. Its pods are those that exist, else those that its job will make, else equal parts
//! of what the group asks for. Pods of others take the room that they have and never end; volumes are not looked at.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Node, Pod, PodSpec as K8sPodSpec, PodTemplateSpec},
    scheduling::v1::PriorityClass,
};
use kube::ResourceExt as _;
use ronde_api::{HyperNode, Job, JobPhase, PodGroup, PodGroupPhase, PodGroupSpec, Queue, TrainingJob, names};
use ronde_runtime::{
    pods::{controller_of, is_finished, resources::requests},
    podstatus::node_of,
};
use ronde_scheduler::{Amounts, GroupId, Node as SimNode, Pod as SimPod, PodSpec, Volumes};
use ronde_simulate::{Job as SimJob, JobError, Placed, Scenario, Task};

use crate::{
    elastic::pod::Wiring,
    membership::{Membership, Schedulers, membership},
    scheduling::objects::{
        count,
        groups::{self, GroupContext, class_of},
        nodes, pods,
    },
};

/// The objects that decide who runs where.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    pub nodes: Vec<Node>,
    pub queues: Vec<Queue>,
    pub classes: Vec<PriorityClass>,
    pub parts: Vec<HyperNode>,
    pub groups: Vec<PodGroup>,
    pub pods: Vec<Pod>,
    pub jobs: Vec<Job>,
    pub training: Vec<TrainingJob>,
}

/// Returns a cluster with its work at a moment.
pub fn scenario(objects: &Objects, schedulers: &Schedulers, now: Timestamp) -> Scenario {
    let known: Vec<Arc<Node>> = objects.nodes.iter().cloned().map(Arc::new).collect();
    let parts: Vec<Arc<HyperNode>> = objects.parts.iter().cloned().map(Arc::new).collect();
    let members = Members::new(objects, schedulers);
    let live = objects.groups.iter().filter(|group| is_live(group));
    let mut jobs: Vec<SimJob> = live.filter_map(|group| gang(group, objects, &members, now)).collect();
    // Manifests may have jobs that no controller has seen.
    let seen: BTreeSet<&str> = objects.groups.iter().filter_map(owner_uid).collect();
    let is_new = |uid: Option<&String>| uid.is_none_or(|uid| !seen.contains(uid.as_str()));
    let unseen = objects.jobs.iter().filter(|job| is_new(job.metadata.uid.as_ref()) && !has_ended(job));
    jobs.extend(unseen.filter_map(|job| batch_job(job, &objects.classes, now).ok()));
    Scenario {
        nodes: objects.nodes.iter().map(|node| members.without_strangers(nodes::node(node))).collect(),
        queues: objects.queues.iter().map(groups::queue).collect(),
        parts: parts.iter().map(|part| nodes::hyper_node(part, &known, &parts)).collect(),
        jobs,
        begin: now.as_millisecond(),
        ..Scenario::default()
    }
}

fn is_live(group: &PodGroup) -> bool {
    group.phase() != Some(PodGroupPhase::Completed) && group.metadata.deletion_timestamp.is_none()
}

fn has_ended(job: &Job) -> bool {
    let phase = job.status.as_ref().and_then(|status| status.state.phase);
    matches!(phase, Some(JobPhase::Completed | JobPhase::Failed | JobPhase::Terminated | JobPhase::Aborted))
}

fn owner_uid(group: &PodGroup) -> Option<&str> {
    controller_of(&group.metadata).map(|owner| owner.uid.as_str())
}

/// Pods by their gangs, and what pods of others take of each node.
struct Members<'a> {
    by_group: BTreeMap<GroupId, Vec<(&'a Pod, SimPod)>>,
    strangers: BTreeMap<&'a str, Vec<Amounts>>,
}

impl<'a> Members<'a> {
    fn new(objects: &'a Objects, schedulers: &Schedulers) -> Self {
        let mut members = Self { by_group: BTreeMap::new(), strangers: BTreeMap::new() };
        let groups: BTreeSet<GroupId> = objects.groups.iter().filter(|group| is_live(group)).map(id).collect();
        for pod in objects.pods.iter().filter(|pod| !is_finished(pod)) {
            let whose = membership(pod, schedulers);
            match &whose {
                Membership::Of(group) if groups.contains(group) => {
                    let seen = pods::pod(pod, &whose, Volumes::default());
                    members.by_group.entry(group.clone()).or_default().push((pod, seen));
                }
                _ => {
                    let takes = pod.spec.as_ref().map(requests).unwrap_or_default();
                    members.strangers.entry(node_of(pod)).or_default().push(takes);
                }
            }
        }
        let order = |(_, pod): &(&Pod, SimPod)| (pod.task.clone(), pod.spec.clone(), pod.index);
        members.by_group.values_mut().for_each(|pods| pods.sort_by_cached_key(order));
        members
    }

    fn without_strangers(&self, mut node: SimNode) -> SimNode {
        for takes in self.strangers.get(node.name.as_str()).into_iter().flatten() {
            for (name, amount) in takes.iter() {
                let left = node.allocatable.get(name).unwrap_or(0).saturating_sub(amount).max(0);
                node.allocatable.set(name, left);
            }
        }
        node
    }
}

fn id(group: &PodGroup) -> GroupId {
    GroupId::new(&group.namespace().unwrap_or_default(), &group.name_any())
}

/// Returns a gang with its pods; one that asks for no pods is none.
fn gang(group: &PodGroup, objects: &Objects, members: &Members<'_>, now: Timestamp) -> Option<SimJob> {
    let owner = owner_uid(group)?;
    let is_owner = |uid: Option<&String>| uid.is_some_and(|uid| uid == owner);
    let batch = objects.jobs.iter().find(|job| is_owner(job.metadata.uid.as_ref()));
    let training = objects.training.iter().find(|job| is_owner(job.metadata.uid.as_ref()));
    let none = Vec::new();
    let pods = members.by_group.get(&id(group)).unwrap_or(&none);
    let told = group_of(group, objects);
    let tasks = match (batch, training) {
        _ if !pods.is_empty() => tasks_of_pods(pods),
        (Some(job), _) => tasks_of_batch(job),
        (_, Some(job)) => tasks_of_training(job),
        _ => vec![equal_parts(&group.spec)],
    };
    let is_admitted = told.admitted.is_some();
    let mut job = SimJob::new(told, tasks).ok()?;
    if let Some(training) = training.filter(|_| job.replicas() > 0) {
        let others = job.replicas() - job.tasks.last().map_or(0, |task| task.replicas);
        let most = others + count(training.spec.worker().max_replicas()).max(job.replicas() - others);
        job = job.with_max(most, training.is_auto()).ok()?;
    }
    job.arrival = group.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0).as_millisecond();
    job.run = batch.and_then(run_of);
    if is_admitted {
        let started = pods.iter().filter_map(|(pod, _)| pod.status.as_ref()?.start_time.as_ref()).map(|time| time.0);
        let since = started.min().unwrap_or(now).as_millisecond();
        job.placed = Some(Placed { nodes: pods.iter().map(|(_, pod)| pod.node.clone()).collect(), since });
    }
    Some(job)
}

fn group_of(group: &PodGroup, objects: &Objects) -> ronde_scheduler::Group {
    let tier = |name: &str| objects.parts.iter().find(|part| part.spec.tier_name == name).map(|part| part.spec.tier);
    let class = class_of(group, &objects.classes);
    groups::group(group, GroupContext { class, tier: &tier })
}

/// How long its owner says that a job runs, in milliseconds.
pub fn run_of(job: &Job) -> Option<i64> {
    Some((job.spec.running_estimate?.nanoseconds() / 1_000_000).max(1))
}

fn tasks_of_pods(pods: &[(&Pod, SimPod)]) -> Vec<Task> {
    let is_alike = |a: &(&Pod, SimPod), b: &(&Pod, SimPod)| a.1.task == b.1.task && a.1.spec == b.1.spec;
    let task = |alike: &[(&Pod, SimPod)]| Task {
        name: alike[0].1.task.clone(),
        replicas: u32::try_from(alike.len()).unwrap_or(u32::MAX),
        spec: alike[0].1.spec.clone(),
        labels: alike[0].1.labels.clone(),
    };
    pods.chunk_by(is_alike).map(task).collect()
}

fn tasks_of_batch(job: &Job) -> Vec<Task> {
    let task = |task: &ronde_api::TaskSpec| of_template(&task.name, task.replicas, &task.template, job.namespace());
    job.spec.tasks.iter().map(task).collect()
}

fn tasks_of_training(job: &TrainingJob) -> Vec<Task> {
    let wiring = Wiring::default();
    let of_pod = |name: &str, replicas: i32, pod: Pod| {
        let template = PodTemplateSpec { metadata: Some(pod.metadata), spec: pod.spec };
        of_template(name, replicas, &template, job.namespace())
    };
    let launcher = of_pod(names::elastic::LAUNCHER, 1, wiring.launcher(job, 0));
    vec![launcher, of_pod(names::elastic::WORKER, job.spec.worker().replicas(), wiring.worker(job, "", 0))]
}

fn of_template(name: &str, replicas: i32, template: &PodTemplateSpec, namespace: Option<String>) -> Task {
    let mut metadata = template.metadata.clone().unwrap_or_default();
    (metadata.namespace, metadata.name) = (namespace, Some(name.to_owned()));
    let mut labels = metadata.labels.take().unwrap_or_default();
    labels.insert(names::TASK_SPEC.to_owned(), name.to_owned());
    metadata.labels = Some(labels.clone());
    let pod = Pod { metadata, spec: template.spec.clone().map(with_requests), status: None };
    let seen = pods::pod(&pod, &Membership::Unassigned, Volumes::default());
    Task { name: name.into(), replicas: count(replicas), spec: seen.spec, labels }
}

/// Asks for what is limited, as the API does when a pod is made.
fn with_requests(mut spec: K8sPodSpec) -> K8sPodSpec {
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        let Some(resources) = &mut container.resources else { continue };
        for (name, limit) in resources.limits.clone().into_iter().flatten() {
            resources.requests.get_or_insert_default().entry(name).or_insert(limit);
        }
    }
    spec
}

/// Returns pods that ask for equal parts of what a group asks for.
fn equal_parts(spec: &PodGroupSpec) -> Task {
    let members = i64::from(spec.min_member.max(1));
    let asked = spec.min_resources.as_ref().map(ronde_runtime::pods::resources::quota_requests).unwrap_or_default();
    let parts = asked.iter().map(|(name, all)| (name.clone(), all.saturating_add(members - 1).div_euclid(members)));
    let spec_of_pod = PodSpec { requests: parts.collect(), ..PodSpec::default() };
    let labels = ronde_scheduler::Labels::new();
    Task { name: "".into(), replicas: count(spec.min_member.max(1)), spec: Arc::new(spec_of_pod), labels }
}

/// Returns a job that is not in the cluster yet.
///
/// # Errors
/// If it has no pods.
pub fn batch_job(job: &Job, classes: &[PriorityClass], now: Timestamp) -> Result<SimJob, JobError> {
    let tasks = tasks_of_batch(job);
    let all: u32 = tasks.iter().map(|task| task.replicas).sum();
    let least = Some(count(job.spec.min_available)).filter(|least| *least > 0).unwrap_or(all);
    let named = PodGroup {
        spec: PodGroupSpec { priority_class_name: job.spec.priority_class_name.clone(), ..PodGroupSpec::default() },
        ..PodGroup::default()
    };
    let class = class_of(&named, classes);
    let namespace = job.namespace().unwrap_or_else(|| "default".to_owned());
    let mut group =
        ronde_scheduler::Group::new(GroupId::new(&namespace, &job.name_any()), queue(&job.spec.queue), least);
    group.priority = class.map_or(0, |class| class.value);
    group.preempts = class.and_then(|class| class.preemption_policy.as_deref()) != Some("Never");
    group.created = ronde_scheduler::Time::from_millis(now.as_millisecond());
    let mut simulated = SimJob::new(group, tasks)?;
    (simulated.arrival, simulated.run) = (now.as_millisecond(), run_of(job));
    Ok(simulated)
}

fn queue(named: &str) -> &str {
    if named.is_empty() { names::DEFAULT_QUEUE } else { named }
}
