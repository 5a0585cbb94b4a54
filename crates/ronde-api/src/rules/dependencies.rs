//! Tasks and jobs of flows that wait for each other: the names must exist, and nobody may wait for himself in the end.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::Faults;
use crate::{Iteration, TaskSpec};

const NO_DAG: &str = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)";

/// Checks `dependsOn` of all tasks. Costs tasks × dependencies.
pub(super) fn check(tasks: &[TaskSpec], faults: &mut Faults) {
    let mut nodes = Vec::new();
    for (at, task) in tasks.iter().enumerate() {
        let path = format!("spec.tasks[{at}].dependsOn");
        let depends_on = task.depends_on.as_ref();
        if let Some(depends_on) = depends_on {
            let words = Iteration::ALL.iter().map(|word| word.as_str());
            faults.one_of(format!("{path}.iteration"), &depends_on.iteration, words);
        }
        let waits_for = depends_on.map(|depends_on| depends_on.name.as_slice()).unwrap_or_default();
        nodes.push(Node { name: &task.name, list: format!("{path}.name"), path, waits_for });
    }
    check_graph(("task", NO_DAG), &nodes, faults);
}

/// Something that waits for others of its kind.
pub(super) struct Node<'a> {
    pub name: &'a str,
    /// Where it says so.
    pub path: String,
    /// The list of their names there.
    pub list: String,
    pub waits_for: &'a [String],
}

/// Checks that all names exist and that nobody waits for himself in the end. Told with what the nodes are called, and
/// what it is called when they wait in a circle.
pub(super) fn check_graph((what, circle): (&str, &str), nodes: &[Node<'_>], faults: &mut Faults) {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        index.entry(node.name).or_insert(at);
    }
    let mut waits: Vec<Vec<usize>> = Vec::new();
    for node in nodes {
        let mut known = Vec::new();
        for (place, name) in node.waits_for.iter().enumerate() {
            match index.get(name.as_str()) {
                Some(&other) => known.push(other),
                None => faults.not_found(format!("{}[{place}]", node.list), format!("there is no {what} {name:?}")),
            }
        }
        waits.push(known);
    }
    for cycle in cycles(&waits) {
        let names: Vec<String> = cycle.iter().map(|&at| format!("{:?}", nodes[at].name)).collect();
        let message = format!("{circle}: {} waits for itself", names.join(" waits for "));
        faults.invalid(&nodes[cycle[0]].path, message);
    }
}

/// Returns circles of nodes that wait for each other, until none is left when each is cut at one place.
fn cycles(waits: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut left: BTreeSet<usize> = (0..waits.len()).collect();
    let mut found = Vec::new();
    loop {
        let free: Vec<usize> =
            left.iter().copied().filter(|&node| waits[node].iter().all(|other| !left.contains(other))).collect();
        if !free.is_empty() {
            left.retain(|node| !free.contains(node));
            continue;
        }
        let Some(&start) = left.first() else { return found };
        let cycle = walk(start, waits, &left);
        left.remove(&cycle[0]);
        found.push(cycle);
    }
}

/// Goes from node to node that each waits for until one comes again; every node here waits for another one.
fn walk(start: usize, waits: &[Vec<usize>], left: &BTreeSet<usize>) -> Vec<usize> {
    let mut path = vec![start];
    loop {
        let last = path[path.len() - 1];
        let next = waits[last].iter().copied().find(|node| left.contains(node)).unwrap_or(last);
        if let Some(first) = path.iter().position(|&node| node == next) {
            let mut cycle = path.split_off(first);
            let lowest = cycle.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(at, _)| at);
            cycle.rotate_left(lowest);
            return cycle;
        }
        path.push(next);
    }
}
