//! The tasks of a job, each by itself and their names among each other.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;
use ronde_text::{names, quantity::Quantity};

use super::{PODS_MAX, budget, fault::Faults, policies, topology};
use crate::{PartitionPolicy, TaskSpec, TopologyPolicy};

/// Checks everything about tasks but what they depend on and how their pods are called.
pub(super) fn check(tasks: &[TaskSpec], faults: &mut Faults) {
    if tasks.is_empty() {
        faults.required("spec.tasks", "No task specified in job spec; at least one is needed");
    }
    let mut seen = BTreeSet::new();
    for (at, task) in tasks.iter().enumerate() {
        let path = format!("spec.tasks[{at}]");
        faults.name(&format!("{path}.name"), &task.name, names::is_dns1123_label);
        if !seen.insert(task.name.as_str()) {
            faults.duplicate(format!("{path}.name"), format!("duplicated task name {:?}", task.name));
        }
        check_numbers(task, &path, faults);
        check_template(task, &path, faults);
        let metadata = task.template.metadata.as_ref();
        let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
        budget::check(annotations, &format!("{path}.template.metadata"), faults);
        policies::check(&task.policies, &format!("{path}.policies"), faults);
        if let Some(partitions) = &task.partition_policy {
            check_partitions(task, partitions, &path, faults);
        }
    }
}

fn check_numbers(task: &TaskSpec, path: &str, faults: &mut Faults) {
    faults.at_least(format!("{path}.replicas"), task.replicas, 0);
    faults.at_most(format!("{path}.replicas"), task.replicas, PODS_MAX);
    faults.at_least(format!("{path}.maxRetry"), task.max_retry, 0);
    let Some(least) = task.min_available else { return };
    faults.at_least(format!("{path}.minAvailable"), least, 0);
    if least > task.replicas {
        let (name, replicas) = (&task.name, task.replicas);
        let why = format!("'minAvailable' is greater than 'replicas' in task {name:?}: {least} > {replicas}");
        faults.invalid(format!("{path}.minAvailable"), why);
    }
}

fn check_template(task: &TaskSpec, path: &str, faults: &mut Faults) {
    let containers = task.template.spec.as_ref().map_or(&[][..], |spec| &spec.containers);
    if containers.is_empty() {
        faults.required(format!("{path}.template.spec.containers"), "must have at least one container");
    }
    let words = TopologyPolicy::ALL.iter().map(|word| word.as_str());
    faults.one_of(format!("{path}.topologyPolicy"), &task.topology_policy, words);
    if task.topology_policy.is_empty() || task.topology_policy == TopologyPolicy::None.as_str() {
        return;
    }
    for (at, container) in containers.iter().enumerate() {
        if let Some(cpu) = requested_cpu(container).filter(|cpu| !is_whole(cpu)) {
            let place = format!("{path}.template.spec.containers[{at}].resources.requests.cpu");
            faults.invalid(place, format!("{cpu} is not a whole number, which topologyPolicy needs"));
        }
    }
}

/// A limit without a request is the request.
fn requested_cpu(container: &Container) -> Option<&str> {
    let resources = container.resources.as_ref()?;
    let lists = [&resources.requests, &resources.limits].into_iter().flatten();
    lists.filter_map(|list| list.get("cpu")).map(|cpu| cpu.0.as_str()).next()
}

fn is_whole(cpu: &str) -> bool {
    Quantity::parse(cpu).is_ok_and(|cpu| cpu.milli() % 1000 == 0)
}

fn check_partitions(task: &TaskSpec, partitions: &PartitionPolicy, path: &str, faults: &mut Faults) {
    let place = format!("{path}.partitionPolicy");
    let PartitionPolicy { total_partitions: total, partition_size: size, min_partitions: least, .. } = *partitions;
    faults.at_least(format!("{place}.totalPartitions"), total, 1);
    faults.at_least(format!("{place}.partitionSize"), size, 1);
    faults.at_least(format!("{place}.minPartitions"), least, 0);
    topology::check(partitions.network_topology.as_ref(), &format!("{place}.networkTopology"), faults);
    if least > total {
        let why = format!("{least} is more than totalPartitions, which is {total}");
        faults.invalid(format!("{place}.minPartitions"), why);
    }
    let pods = i64::from(total) * i64::from(size);
    if total > 0 && size > 0 && pods != i64::from(task.replicas) {
        let why = format!("{} is not totalPartitions × partitionSize, which is {pods}", task.replicas);
        faults.invalid(format!("{path}.replicas"), why);
    }
    if let Some(min_available) = task.min_available.filter(|given| least > 0 && *given != partitions.min_pods()) {
        let pods = partitions.min_pods();
        let why = format!("{min_available} is not minPartitions × partitionSize, which is {pods}");
        faults.invalid(format!("{path}.minAvailable"), why);
    }
}
