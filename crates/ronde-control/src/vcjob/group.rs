//! Builds the PodGroup of a job: what the scheduler and the queue see of it.
//!
//! Pure. `minResources` is counted as a ResourceQuota would count it, so that queues can compare the two.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec, PodTemplateSpec},
    apimachinery::pkg::{
        api::resource::Quantity as Text,
        apis::meta::v1::{LabelSelector, ObjectMeta},
    },
};
use kube::ResourceExt as _;
use ronde_api::{PodGroup, PodGroupSpec, SubGroupPolicy, TaskSpec, names};
use ronde_runtime::pods::controller_ref;
use ronde_text::quantity::Quantity;

use super::{
    depends::{self, Part},
    memory::Memory,
    observed::Observed,
    pod,
};

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// Builds the group of a job.
pub fn build(seen: &Observed<'_>, memory: &Memory) -> PodGroup {
    let job = seen.job;
    let mut annotations = job.annotations().clone();
    let version = job.status.as_ref().map_or(0, |status| status.version);
    annotations.insert(names::JOB_VERSION.to_owned(), version.to_string());
    let metadata = ObjectMeta {
        name: Some(names::pod_group(&job.name_any(), &job.uid().unwrap_or_default())),
        namespace: job.namespace(),
        labels: job.metadata.labels.clone(),
        annotations: Some(annotations),
        owner_references: Some(vec![controller_ref(job)]),
        ..ObjectMeta::default()
    };
    PodGroup { metadata, spec: spec(seen, memory), status: None }
}

/// Returns what the group of a job asks for now.
pub fn spec(seen: &Observed<'_>, memory: &Memory) -> PodGroupSpec {
    let startable = depends::startable(seen, memory);
    let parts = depends::parts(seen, memory, &startable);
    let min_member = depends::min_member(seen, &parts);
    let job = seen.spec();
    // A partition that has lost pods for good is no subgroup any more: it would never be complete.
    let is_reduced = |task: &TaskSpec| parts.iter().any(|part| part.task.name == task.name && part.is_reduced());
    PodGroupSpec {
        min_member,
        min_task_member: parts.iter().map(|part| (part.task.name.clone(), part.least)).collect(),
        queue: pod::queue(seen.job).to_owned(),
        priority_class_name: job.priority_class_name.clone(),
        min_resources: Some(min_resources(seen, &parts, min_member)),
        network_topology: job.network_topology.clone(),
        sub_group_policy: job.tasks.iter().filter(|task| !is_reduced(task)).filter_map(sub_group).collect(),
    }
}

fn sub_group(task: &TaskSpec) -> Option<SubGroupPolicy> {
    let policy = task.partition_policy.as_ref()?;
    let label = BTreeMap::from([(names::TASK_SPEC.to_owned(), task.name.clone())]);
    Some(SubGroupPolicy {
        name: task.name.clone(),
        network_topology: policy.network_topology.clone(),
        sub_group_size: Some(policy.partition_size),
        min_sub_groups: Some(policy.min_partitions),
        label_selector: Some(LabelSelector { match_labels: Some(label), ..LabelSelector::default() }),
        match_label_keys: vec![names::PARTITION_ID.to_owned()],
    })
}

/// Adds up the requests of the least pods: those of the highest priority first.
fn min_resources(seen: &Observed<'_>, parts: &[Part<'_>], least: i32) -> BTreeMap<String, Text> {
    let mut parts = parts.to_vec();
    parts.sort_by_key(|part| std::cmp::Reverse(priority(seen, &part.task.template)));
    let of_tasks: i32 = parts.iter().map(|part| part.least).sum();
    let mut left = least;
    let mut total = Amounts::new();
    let mut take = |task: &TaskSpec, number: i32| {
        let taken = number.clamp(0, left);
        left -= taken;
        add(&mut total, &usage(&task.template.spec.clone().unwrap_or_default()), taken);
    };
    if least < of_tasks {
        parts.iter().for_each(|part| take(part.task, part.replicas));
    } else {
        parts.iter().for_each(|part| take(part.task, part.least));
        parts.iter().for_each(|part| take(part.task, part.replicas - part.least));
    }
    texts(total)
}

/// Returns amounts as objects carry them.
pub fn texts(amounts: Amounts) -> BTreeMap<String, Text> {
    amounts.into_iter().map(|(name, amount)| (name, Text(amount.to_string()))).collect()
}

/// Returns what so many pods of the same kind need.
pub fn times(amounts: &Amounts, number: i32) -> Amounts {
    let mut total = Amounts::new();
    add(&mut total, amounts, number);
    total
}

fn priority(seen: &Observed<'_>, template: &PodTemplateSpec) -> i32 {
    let own = template.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
    let class = own.filter(|class| !class.is_empty()).unwrap_or(&seen.spec().priority_class_name);
    seen.priorities.get(class).copied().unwrap_or(0)
}

/// Adds so many times some amounts.
pub fn add(total: &mut Amounts, more: &Amounts, times: i32) {
    for (name, amount) in more {
        let sum = total.entry(name.clone()).or_insert(Quantity::ZERO);
        let many = Quantity::from_nano(amount.nano().saturating_mul(times.into()), amount.style());
        *sum = sum.plus(many);
    }
    total.retain(|_, amount| !amount.is_zero());
}

/// Returns what a quota would count for a pod.
pub fn usage(spec: &PodSpec) -> Amounts {
    let mut usage =
        Amounts::from([("pods".to_owned(), Quantity::whole(1)), ("count/pods".to_owned(), Quantity::whole(1))]);
    for (name, amount) in total(spec, Side::Requests) {
        usage.insert(format!("requests.{name}"), amount);
        usage.insert(name, amount);
    }
    for (name, amount) in total(spec, Side::Limits) {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
    usage
}

/// Returns what a quota would count for a pod that is there.
pub fn usage_of(pod: &Pod) -> Amounts {
    usage(&pod.spec.clone().unwrap_or_default())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Requests,
    Limits,
}

/// Returns what a pod asks for at its most demanding moment.
fn total(spec: &PodSpec, side: Side) -> Amounts {
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &of_container(container, side), 1);
    }
    // Sidecars run beside everything that is started after them.
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut moment = of_container(container, side);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &moment, 1);
            moment.clone_from(&sidecars);
        } else {
            add(&mut moment, &sidecars, 1);
        }
        raise(&mut starting, moment);
    }
    add(&mut running, &sidecars, 1);
    raise(&mut running, starting);
    let overhead = spec.overhead.iter().flatten().filter_map(|(name, text)| amount(name, text));
    add(&mut running, &overhead.collect(), 1);
    running
}

fn of_container(container: &Container, side: Side) -> Amounts {
    let resources = container.resources.clone().unwrap_or_default();
    let limits = resources.limits.unwrap_or_default();
    let given = match side {
        // What is only limited is requested as well.
        Side::Requests => limits.into_iter().chain(resources.requests.unwrap_or_default()).collect(),
        Side::Limits => limits,
    };
    given.iter().filter_map(|(name, text)| amount(name, text)).collect()
}

fn amount(name: &str, text: &Text) -> Option<(String, Quantity)> {
    Quantity::parse(&text.0).ok().map(|amount| (name.to_owned(), amount))
}

fn raise(amounts: &mut Amounts, others: Amounts) {
    for (name, other) in others {
        let amount = amounts.entry(name).or_insert(other);
        *amount = (*amount).max(other);
    }
}
