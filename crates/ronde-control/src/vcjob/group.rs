//! Builds the PodGroup of a job: what the scheduler and the queue see of it.
//!
//! Pure. `minResources` is counted as a ResourceQuota would count it, so that queues can compare the two.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::{
        api::resource::Quantity as Text,
        apis::meta::v1::{LabelSelector, ObjectMeta},
    },
};
use kube::ResourceExt as _;
use ronde_api::{PodGroup, PodGroupSpec, SubGroupPolicy, TaskSpec, names};
use ronde_runtime::pods::{
    controller_ref,
    quota::{Amounts, add, texts, usage},
};

use super::{
    depends::{self, Part},
    memory::Memory,
    observed::Observed,
    pod,
};

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

fn priority(seen: &Observed<'_>, template: &PodTemplateSpec) -> i32 {
    let own = template.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
    let class = own.filter(|class| !class.is_empty()).unwrap_or(&seen.spec().priority_class_name);
    seen.priorities.get(class).copied().unwrap_or(0)
}
