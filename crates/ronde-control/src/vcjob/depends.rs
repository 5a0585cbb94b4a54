//! Which tasks may start (`dependsOn`), and how large the gang is of those that may.
//!
//! Pure. The group of a job asks for no more pods than can be made: a task that waits for another one is counted
//! when it may start, else both would wait for ever; a pod that has succeeded is counted for as long as it is there.

use std::collections::BTreeSet;

use ronde_api::{Iteration, TaskSpec};

use super::{member::Member, memory::Memory, observed::Observed};

/// Returns the names of the tasks whose pods may be made.
pub fn startable<'a>(seen: &'a Observed<'_>, memory: &Memory) -> BTreeSet<&'a str> {
    let tasks = seen.spec().tasks.iter().filter(|task| may_start(seen, memory, task));
    tasks.map(|task| task.name.as_str()).collect()
}

/// What the gang of a job has of a task that may start.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    pub task: &'a TaskSpec,
    pub replicas: i32,
    pub least: i32,
}

impl Part<'_> {
    /// Tells whether some of its pods have succeeded and are gone.
    pub fn is_reduced(&self) -> bool {
        self.replicas < self.task.replicas
    }
}

/// Returns the tasks that may start, less what has succeeded and has no pod any more: nobody makes it again.
pub fn parts<'a>(seen: &'a Observed<'_>, memory: &Memory, startable: &BTreeSet<&str>) -> Vec<Part<'a>> {
    let tasks = seen.spec().tasks.iter().filter(|task| startable.contains(task.name.as_str()));
    let part = |task: &'a TaskSpec| {
        let is_shown = |member: &&Member| member.task == task.name && seen.is_kept(memory, member);
        let shown = i32::try_from(seen.members.iter().filter(is_shown).count()).unwrap_or(i32::MAX);
        let gone = (memory.succeeded_of(&task.name) - shown).max(0);
        Part { task, replicas: task.replicas - gone, least: (task.min_available() - gone).max(0) }
    };
    tasks.map(part).collect()
}

/// Returns how many pods must be placeable together: the job's minimum, less what cannot be made yet or any more.
pub fn min_member(seen: &Observed<'_>, parts: &[Part<'_>]) -> i32 {
    let of_all = |of: fn(&TaskSpec) -> i32| seen.spec().tasks.iter().map(of).sum::<i32>();
    let of_parts = |of: fn(&Part<'_>) -> i32| parts.iter().map(of).sum::<i32>();
    let (wanted, gone) = (seen.spec().min_available, of_parts(|part| part.task.replicas - part.replicas));
    let waiting = of_all(|task| task.replicas) - of_parts(|part| part.task.replicas);
    // Who says less than the tasks together means it.
    let heeds_tasks = waiting > 0 || wanted >= of_all(TaskSpec::min_available);
    let of_tasks = if heeds_tasks { of_parts(|part| part.least) } else { 0 };
    let least = (wanted - waiting - gone).max(of_tasks);
    if waiting == 0 && gone == 0 { wanted } else { least.min(wanted).min(of_parts(|part| part.replicas)).max(0) }
}

/// A task that has begun is not held back any more, whatever becomes of those it waited for.
fn may_start(seen: &Observed<'_>, memory: &Memory, task: &TaskSpec) -> bool {
    let Some(depends) = task.depends_on.as_ref().filter(|depends| !depends.name.is_empty()) else { return true };
    let has_begun = memory.succeeded_of(&task.name) > 0
        || seen.members.iter().any(|member| member.task == task.name && seen.is_present(memory, member));
    let is_ready = |name: &String| seen.task(name).is_none_or(|task| is_ready(seen, memory, task));
    has_begun
        || match depends.iteration() {
            Iteration::Any => depends.name.iter().any(is_ready),
            Iteration::All => depends.name.iter().all(is_ready),
        }
}

fn is_ready(seen: &Observed<'_>, memory: &Memory, task: &TaskSpec) -> bool {
    let is_ready = |member: &&Member| member.task == task.name && member.is_ready() && seen.is_present(memory, member);
    let ready = seen.members.iter().filter(is_ready).count();
    let ready = i32::try_from(ready).unwrap_or(i32::MAX);
    memory.succeeded_of(&task.name).saturating_add(ready) >= task.min_available()
}
