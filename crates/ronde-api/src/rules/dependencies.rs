//! Tasks that wait for each other: the names must exist, and nobody may wait for himself in the end.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::Faults;
use crate::{Iteration, TaskSpec};

/// Checks `dependsOn` of all tasks. Costs tasks × dependencies.
pub(super) fn check(tasks: &[TaskSpec], faults: &mut Faults) {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, task) in tasks.iter().enumerate() {
        index.entry(&task.name).or_insert(at);
    }
    let mut waits: Vec<Vec<usize>> = Vec::new();
    for (at, task) in tasks.iter().enumerate() {
        let Some(depends_on) = &task.depends_on else {
            waits.push(Vec::new());
            continue;
        };
        let path = format!("spec.tasks[{at}].dependsOn");
        faults.one_of(
            format!("{path}.iteration"),
            &depends_on.iteration,
            Iteration::ALL.iter().map(|word| word.as_str()),
        );
        let mut known = Vec::new();
        for (place, name) in depends_on.name.iter().enumerate() {
            match index.get(name.as_str()) {
                Some(&task) => known.push(task),
                None => faults.not_found(format!("{path}.name[{place}]"), format!("there is no task {name:?}")),
            }
        }
        waits.push(known);
    }
    for cycle in cycles(&waits) {
        let names: Vec<String> = cycle.iter().map(|&at| format!("{:?}", tasks[at].name)).collect();
        let path = format!("spec.tasks[{}].dependsOn", cycle[0]);
        faults.invalid(path, format!("circular dependency: {} waits for itself", names.join(" waits for ")));
    }
}

/// Returns circles of tasks that wait for each other, until none is left when each is cut at one place.
fn cycles(waits: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut left: BTreeSet<usize> = (0..waits.len()).collect();
    let mut found = Vec::new();
    loop {
        let free: Vec<usize> =
            left.iter().copied().filter(|&task| waits[task].iter().all(|other| !left.contains(other))).collect();
        if !free.is_empty() {
            left.retain(|task| !free.contains(task));
            continue;
        }
        let Some(&start) = left.first() else { return found };
        let cycle = walk(start, waits, &left);
        left.remove(&cycle[0]);
        found.push(cycle);
    }
}

/// Goes from task to task that each waits for until one comes again; every task here waits for another one.
fn walk(start: usize, waits: &[Vec<usize>], left: &BTreeSet<usize>) -> Vec<usize> {
    let mut path = vec![start];
    loop {
        let last = path[path.len() - 1];
        let next = waits[last].iter().copied().find(|task| left.contains(task)).unwrap_or(last);
        if let Some(first) = path.iter().position(|&task| task == next) {
            let mut cycle = path.split_off(first);
            let lowest = cycle.iter().enumerate().min_by_key(|(_, task)| **task).map_or(0, |(at, _)| at);
            cycle.rotate_left(lowest);
            return cycle;
        }
        path.push(next);
    }
}
