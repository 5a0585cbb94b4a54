//! Which tasks may start (`dependsOn`), and how large the gang is of those that may.
//!
//! Pure. The group of a job asks for no more pods than can be made: a task that waits for another one is counted
//! when it may start, else both would wait for ever.

use std::collections::BTreeSet;

use ronde_api::{Iteration, TaskSpec};

use super::{member::Member, memory::Memory, observed::Observed};

/// Returns the names of the tasks whose pods may be made.
pub fn startable<'a>(seen: &'a Observed<'_>, memory: &Memory) -> BTreeSet<&'a str> {
    let tasks = seen.spec().tasks.iter().filter(|task| may_start(seen, memory, task));
    tasks.map(|task| task.name.as_str()).collect()
}

/// Returns how many pods must be placeable together: the job's minimum, less what cannot be made yet.
pub fn min_member(seen: &Observed<'_>, startable: &BTreeSet<&str>) -> i32 {
    let (may, wait): (Vec<&TaskSpec>, Vec<_>) =
        seen.spec().tasks.iter().partition(|task| startable.contains(task.name.as_str()));
    let wanted = seen.spec().min_available;
    if wait.is_empty() {
        return wanted;
    }
    let sum = |tasks: &[&TaskSpec], of: fn(&TaskSpec) -> i32| tasks.iter().map(|task| of(task)).sum::<i32>();
    let least = (wanted - sum(&wait, |task| task.replicas)).max(sum(&may, TaskSpec::min_available));
    least.min(wanted).min(sum(&may, |task| task.replicas)).max(0)
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
