//! Another cluster or other rules, in a sentence: `add 2 nodes like gpu-a`, `add 4x8gpu`, `remove 2 nodes like gpu-a`,
//! `weight team-a=3`, `queue team-a:capability.gpu=16`, `elastic=auto`, `preemption=off`, `reclaim=off`.

use ronde_scheduler::{NodeName, Queue};

use super::{InputError, cluster};
use crate::scenario::{Elastic, Scenario};

/// Returns a scenario as it would be.
///
/// # Errors
/// If the sentence is something else, or names what is not there.
pub fn apply(text: &str, scenario: &Scenario) -> Result<Scenario, InputError> {
    let mut changed = scenario.clone();
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["add", count, "node" | "nodes", "like", model] => {
            let more = cluster::more_like(&scenario.nodes, model, number(text, count)?)?;
            changed.nodes.extend(more);
        }
        ["add", line] => {
            let more = cluster::nodes(line)?.into_iter().map(|mut node| {
                node.name = format!("new-{}", node.name).into();
                node
            });
            changed.nodes.extend(more);
        }
        ["remove", count, "node" | "nodes", "like", model] => remove(&mut changed, model, number(text, count)?, text)?,
        ["remove", name] => remove(&mut changed, name, 1, text)?,
        ["weight", pair] if pair.contains('=') => {
            let (name, weight) = pair.split_once('=').unwrap_or((pair, ""));
            change_queue(&mut changed, name, &format!("weight={weight}"))?;
        }
        ["queue", line] => {
            let (name, words) = line.split_once(':').unwrap_or((line, ""));
            change_queue(&mut changed, name, words)?;
        }
        [word] if word.contains('=') => switch(&mut changed, word, text)?,
        _ => return Err(wrong(text, "write it as `add 2 nodes like gpu-a`, `weight team-a=3` or `elastic=auto`")),
    }
    Ok(changed)
}

fn wrong(text: &str, why: &str) -> InputError {
    InputError::Whole(format!("`{text}` changes nothing: {why}"))
}

fn number(text: &str, word: &str) -> Result<usize, InputError> {
    word.parse().ok().filter(|count| *count > 0).ok_or_else(|| wrong(text, &format!("`{word}` is no number of nodes")))
}

/// Takes nodes away, the last ones first, with what was to happen to them.
fn remove(scenario: &mut Scenario, model: &str, count: usize, text: &str) -> Result<(), InputError> {
    let like: Vec<NodeName> = cluster::find_like(&scenario.nodes, model).map(|node| node.name.clone()).collect();
    if like.len() < count {
        return Err(wrong(text, &format!("there are {} nodes like `{model}`", like.len())));
    }
    let gone = &like[like.len() - count..];
    let uses = |job: &crate::Job| {
        let nodes = job.placed.iter().flat_map(|placed| placed.nodes.iter().flatten());
        nodes.into_iter().any(|node| gone.contains(node))
    };
    if let Some(job) = scenario.jobs.iter().find(|job| uses(job)) {
        return Err(wrong(text, &format!("`{}` runs there", job.group.id.name())));
    }
    scenario.nodes.retain(|node| !gone.contains(&node.name));
    Ok(())
}

fn change_queue(scenario: &mut Scenario, name: &str, words: &str) -> Result<(), InputError> {
    let is_named = scenario.jobs.iter().any(|job| job.group.queue.as_str() == name);
    let known = scenario.queues.iter().find(|queue| queue.name.as_str() == name).cloned();
    let before = known.or_else(|| is_named.then(|| Queue::new(name)));
    let before = before.ok_or_else(|| InputError::Whole(format!("there is no queue `{name}`")))?;
    let after = cluster::changed_queue(before, words)?;
    scenario.queues.retain(|queue| queue.name.as_str() != name);
    scenario.queues.push(after);
    Ok(())
}

/// Turns something on or off for all jobs.
fn switch(scenario: &mut Scenario, word: &str, text: &str) -> Result<(), InputError> {
    match word {
        "elastic=auto" | "elastic=off" => {
            let auto = word == "elastic=auto";
            let ranges = scenario.jobs.iter_mut().filter_map(|job| job.elastic.as_mut());
            let mut changed = 0;
            ranges.for_each(|range: &mut Elastic| {
                range.auto = auto;
                changed += 1;
            });
            if changed == 0 {
                return Err(wrong(text, "no job has a range of sizes"));
            }
        }
        "preemption=off" => scenario.policy.preempts = false,
        "preemption=on" => scenario.policy.preempts = true,
        "reclaim=off" => scenario.policy.reclaims = false,
        "reclaim=on" => scenario.policy.reclaims = true,
        _ => return Err(wrong(text, "`elastic=auto`, `preemption=off` and `reclaim=off` would")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ronde_scheduler::Amounts;

    use super::*;
    use crate::scenario::Job;

    fn scenario() -> Scenario {
        let job = Job::uniform("a", "team-a", (1, 2), Amounts::of([(super::super::GPU, 1)]));
        let job = job.and_then(|job| job.with_max(4, false)).expect("its numbers fit");
        Scenario { nodes: cluster::nodes("gpu-a=2x8gpu").expect("nodes"), jobs: vec![job], ..Scenario::default() }
    }

    #[test]
    fn sentences_change_what_they_say() {
        let changed = |text: &str| apply(text, &scenario()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(changed("add 2 nodes like gpu-a").nodes.len(), 4);
        assert_eq!(changed("add 3x4gpu").nodes.len(), 5);
        assert_eq!(changed("remove 1 node like gpu-a").nodes[0].name.as_str(), "gpu-a-0");
        assert_eq!(changed("remove gpu-a-0").nodes[0].name.as_str(), "gpu-a-1");
        assert_eq!(changed("weight team-a=3").queues[0].weight, 3);
        assert_eq!(changed("queue team-a:capability.gpu=4").queues[0].capability.get(super::super::GPU), Some(4));
        assert!(changed("elastic=auto").jobs[0].elastic.is_some_and(|range| range.auto));
        assert!(!changed("preemption=off").policy.preempts);
        let refused = |text: &str| apply(text, &scenario()).expect_err(text).to_string();
        assert_eq!(refused("weight team-b=3"), "there is no queue `team-b`");
        assert_eq!(
            refused("remove 3 nodes like gpu-a"),
            "`remove 3 nodes like gpu-a` changes nothing: there are 2 nodes like `gpu-a`"
        );
        assert_eq!(
            refused("add 0 nodes like gpu-a"),
            "`add 0 nodes like gpu-a` changes nothing: `0` is no number of nodes"
        );
        for wrong in ["", "pray", "weight team-a=x", "elastic=perhaps", "add 2 nodes like gpu-b"] {
            assert!(apply(wrong, &scenario()).is_err(), "{wrong}");
        }
    }
}
