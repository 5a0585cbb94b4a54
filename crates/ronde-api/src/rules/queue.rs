//! Queues: defaults, rules of one queue by itself, and of the tree it stands in.

use std::collections::BTreeSet;

use ronde_text::quantity::Quantity;

use super::{
    Fault, Queues,
    fault::{FaultKind, Faults},
    occupants, tree,
    unchanged::differences,
};
use crate::{
    DequeueStrategy, Queue, QueueSpec, ResourceList,
    names::{DEFAULT_QUEUE, HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE},
};

const WEIGHT_MAX: i32 = 65535;

/// Sets what the queue leaves open.
pub fn default(queue: &mut Queue) {
    let is_root = queue.metadata.name.as_deref() == Some(ROOT_QUEUE);
    let spec = &mut queue.spec;
    if spec.weight == 0 {
        spec.weight = 1;
    }
    spec.reclaimable.get_or_insert(true);
    if spec.parent.is_empty() && !is_root {
        ROOT_QUEUE.clone_into(&mut spec.parent);
    }
    if spec.dequeue_strategy.is_empty() {
        DequeueStrategy::Traverse.as_str().clone_into(&mut spec.dequeue_strategy);
    }
}

/// Returns what is wrong with a new queue, after [`default`], among the others.
pub fn validate(queue: &Queue, others: &Queues) -> Vec<Fault> {
    let mut faults = Faults::default();
    let spec = &queue.spec;
    faults.at_least("spec.weight", spec.weight, 1);
    faults.at_most("spec.weight", spec.weight, WEIGHT_MAX);
    if let Some(priority) = spec.priority {
        faults.at_least("spec.priority", priority, 0);
    }
    if let Some(most) = spec.max_running_jobs {
        faults.at_least("spec.maxRunningJobs", most, 1);
    }
    for (path, time) in [("spec.minRuntime", spec.min_runtime), ("spec.reclaimDelay", spec.reclaim_delay)] {
        if let Some(time) = time.filter(|time| time.is_negative()) {
            faults.invalid(path, format!("{time} is negative"));
        }
    }
    let words = DequeueStrategy::ALL.iter().map(|word| word.as_str());
    faults.one_of("spec.dequeueStrategy", &spec.dequeue_strategy, words);
    check_amounts(spec, &mut faults);
    check_order(spec, &mut faults);
    check_hierarchy(queue, others, &mut faults);
    tree::check(queue, others, &mut faults);
    faults.into_vec()
}

/// Returns what is wrong with a change of a queue. What was wrong before and has not changed may stay.
pub fn validate_update(old: &Queue, new: &Queue, others: &Queues) -> Vec<Fault> {
    let before = validate(old, others);
    let mut faults = Faults::default();
    faults.extend(validate(new, others).into_iter().filter(|fault| !before.contains(fault)));
    if new.metadata.name.as_deref() == Some(ROOT_QUEUE) {
        let written = |spec: &QueueSpec| serde_json::to_value(spec).unwrap_or_default();
        let frozen = |path: &String| ["capability", "deserved", "guarantee"].iter().any(|f| path[5..].starts_with(f));
        let changed = differences(&written(&old.spec), &written(&new.spec), "spec");
        for path in changed.into_iter().filter(frozen) {
            faults.forbidden(path, "may not change: `root` represents the whole cluster");
        }
    }
    faults.into_vec()
}

/// Returns why a queue may not be deleted. `occupants` are the jobs and groups in it, see [`super::occupants`].
pub fn validate_delete(name: &str, queues: &Queues, occupants: &[String]) -> Option<String> {
    if [ROOT_QUEUE, DEFAULT_QUEUE].contains(&name) {
        return Some(format!("queue `{name}` is always there"));
    }
    let children: Vec<String> = queues.children(name).map(|(child, _)| format!("`{child}`")).collect();
    if !children.is_empty() {
        return Some(format!("it has child queues: {}", children.join(", ")));
    }
    occupants::describe(occupants)
}

/// Returns what is taken and has no effect.
pub fn warnings(queue: &Queue) -> Vec<String> {
    let spec = &queue.spec;
    let mut warnings = Vec::new();
    if !spec.type_.is_empty() {
        warnings.push("spec.type: is stored and shown, but has no effect".to_owned());
    }
    if !spec.extend_clusters.is_empty() {
        let effect = "pods are labeled for forwarding, but nothing here sends them to other clusters";
        warnings.push(format!("spec.extendClusters: {effect}"));
    }
    warnings.extend(flattened(queue));
    warnings
}

/// Says of the older form of a place in the tree that it is not read, if the parent is not the one that it names.
fn flattened(queue: &Queue) -> Option<String> {
    let path = Some(annotation(queue, HIERARCHY)).filter(|path| !path.is_empty())?;
    let parent = if queue.spec.parent.is_empty() { ROOT_QUEUE } else { &queue.spec.parent };
    let named = path.rsplit('/').nth(1).unwrap_or(ROOT_QUEUE);
    let advice = "set spec.parent and spec.weight instead";
    (named != parent).then(|| {
        format!("metadata.annotations[{HIERARCHY}]: {path:?} is ignored, the queue is right below `{parent}`; {advice}")
    })
}

/// The lists of amounts of a queue, with their paths.
fn lists(spec: &QueueSpec) -> [(&'static str, Option<&ResourceList>); 3] {
    let guarantee = spec.guarantee.as_ref().and_then(|guarantee| guarantee.resource.as_ref());
    [
        ("spec.capability", spec.capability.as_ref()),
        ("spec.deserved", spec.deserved.as_ref()),
        ("spec.guarantee.resource", guarantee),
    ]
}

fn check_amounts(spec: &QueueSpec, faults: &mut Faults) {
    for (path, list) in lists(spec) {
        for (resource, amount) in list.into_iter().flatten() {
            match Quantity::parse(&amount.0) {
                Err(error) => faults.invalid(format!("{path}.{resource}"), format!("{:?}: {error}", amount.0)),
                Ok(quantity) if quantity < Quantity::ZERO => {
                    faults.invalid(format!("{path}.{resource}"), format!("{} is negative", amount.0));
                }
                Ok(_) => {}
            }
        }
    }
}

/// Guarantee ≤ deserved ≤ capability, resource by resource.
fn check_order(spec: &QueueSpec, faults: &mut Faults) {
    let [(_, capability), (_, deserved), (_, guarantee)] = lists(spec);
    for (resource, least) in guarantee.into_iter().flatten() {
        let path = format!("spec.guarantee.resource.{resource}");
        match deserved.and_then(|list| list.get(resource)) {
            None => {
                let why = format!("deserved[{resource}] must be >= guarantee[{resource}]={}, but is not set", least.0);
                faults.add(FaultKind::Invalid, path, why);
            }
            Some(most) if tree::is_more(least, most) => {
                let (least, most) = (&least.0, &most.0);
                let why = format!("deserved[{resource}]={most} must be >= guarantee[{resource}]={least}");
                faults.invalid(path, why);
            }
            Some(_) => {}
        }
    }
    for (resource, least) in deserved.into_iter().flatten() {
        if let Some(most) = capability.and_then(|list| list.get(resource)).filter(|most| tree::is_more(least, most)) {
            let (least, most) = (&least.0, &most.0);
            let why = format!("deserved[{resource}]={least} must be <= capability[{resource}]={most}");
            faults.invalid(format!("spec.deserved.{resource}"), why);
        }
    }
}

/// The older form of a place in the tree: a path and the weights along it, as annotations.
fn check_hierarchy(queue: &Queue, others: &Queues, faults: &mut Faults) {
    let (path, weights) = (annotation(queue, HIERARCHY), annotation(queue, HIERARCHY_WEIGHTS));
    if path.is_empty() && weights.is_empty() {
        return;
    }
    let place = |name: &str| format!("metadata.annotations[{name}]");
    let (depth, weight_depth) = (path.split('/').count(), weights.split('/').count());
    if path.is_empty() || weights.is_empty() || depth != weight_depth {
        let why = format!("{weights:?} must have the same length as {HIERARCHY}, which is {path:?}");
        faults.invalid(place(HIERARCHY_WEIGHTS), why);
    }
    let is_weight = |part: &str| part.parse::<f64>().is_ok_and(|weight| weight > 0.0 && weight.is_finite());
    for part in weights.split('/').filter(|part| !weights.is_empty() && !is_weight(part)) {
        faults.invalid(place(HIERARCHY_WEIGHTS), format!("{part:?} must be a number larger than 0"));
    }
    let name = queue.metadata.name.as_deref().unwrap_or_default();
    let below: BTreeSet<&str> = others
        .iter()
        .filter(|(other, queue)| *other != name && is_below(annotation(queue, HIERARCHY), path))
        .map(|(other, _)| other)
        .collect();
    if let Some(other) = below.first().filter(|_| !path.is_empty()) {
        faults.invalid(
            place(HIERARCHY),
            format!("{path:?} is an ancestor of queue {other:?}, but only leaf queues take jobs"),
        );
    }
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

fn annotation<'a>(queue: &'a Queue, name: &str) -> &'a str {
    let annotations = queue.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(name)).map_or("", String::as_str)
}

#[cfg(test)]
mod tests;
