//! `ronde queue list` and `ronde queue get`: queues with the groups of pods that are in them.
//!
//! The groups are counted here, as `vcctl` does: the status of a queue no longer says.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt as _;
use ronde_api::{PodGroup, PodGroupPhase, Queue, QueueSpec, ResourceList};
use serde_json::{Value, json};

use crate::{
    Context,
    args::{GetOutput, QueueGetArgs, QueueListArgs},
    client, environment,
    failure::{Answer, Outcome},
    get, jobs,
    objects::{self, title},
    printer::Printer,
    table::{self, Layout, View, age_since},
};

const COLUMNS: [&str; 9] =
    ["NAME", "PARENT", "WEIGHT", "STATE", "INQUEUE", "PENDING", "RUNNING", "UNKNOWN", "COMPLETED"];
const WIDE_COLUMNS: [&str; 5] = ["RECLAIMABLE", "ALLOCATED", "GUARANTEE", "DESERVED", "CAPABILITY"];

/// Shows all queues.
pub async fn list(args: &QueueListArgs, context: &Context) -> Outcome {
    let client = client::connect_as(&args.cluster).await?;
    let mirror = objects::mirror::<Queue>(&client, None, &[]).await?;
    let queues: Vec<Queue> = mirror.all()?;
    if queues.is_empty() {
        context.printer.say("no queues");
    }
    if let GetOutput::Json | GetOutput::Yaml = args.output {
        let items: Vec<&Value> = mirror.objects().values().collect();
        show_object(&json!({"apiVersion": "v1", "kind": "List", "items": items}), args.output, context.printer);
        return Ok(Answer::Done);
    }
    let groups = objects::list::<PodGroup>(&client, None, &[]).await?;
    let lines = match args.output {
        GetOutput::Name => queues.iter().map(|queue| title::<Queue>(&queue.name_any())).collect(),
        output => lay_out(&queues, &census(&groups), output == GetOutput::Wide),
    };
    if !lines.is_empty() {
        context.printer.data(lines.join("\n"));
    }
    Ok(Answer::Done)
}

/// Shows one queue.
pub async fn get(args: &QueueGetArgs, context: &Context) -> Outcome {
    let client = client::connect_as(&args.cluster).await?;
    let queue = super::fetch(&client, &args.name).await?;
    if args.output == GetOutput::Name {
        context.printer.data(title::<Queue>(&args.name));
        return Ok(Answer::Done);
    }
    if let GetOutput::Json | GetOutput::Yaml = args.output {
        let mirror = objects::mirror_one::<Queue>(&client, None, &args.name).await?;
        let object = mirror.objects().values().next().cloned().unwrap_or_default();
        show_object(&object, args.output, context.printer);
        return Ok(Answer::Done);
    }
    let groups = objects::list::<PodGroup>(&client, None, &[]).await?;
    let parts = [
        lay_out(std::slice::from_ref(&queue), &census(&groups), false),
        shares(&queue),
        members(&groups, &args.name, environment::now()),
    ];
    let parts: Vec<String> = parts.iter().filter(|part| !part.is_empty()).map(|part| part.join("\n")).collect();
    context.printer.data(parts.join("\n\n"));
    Ok(Answer::Done)
}

fn show_object(object: &Value, output: GetOutput, printer: Printer) {
    if output == GetOutput::Yaml {
        printer.data(get::yaml(object));
    } else {
        printer.data(format_args!("{object:#}"));
    }
}

/// How many groups of each queue are in which phase.
type Census = BTreeMap<String, BTreeMap<PodGroupPhase, usize>>;

fn census(groups: &[PodGroup]) -> Census {
    let mut census = Census::new();
    for group in groups {
        let queue = census.entry(jobs::queue(&group.spec.queue).to_owned()).or_default();
        *queue.entry(phase(group)).or_default() += 1;
    }
    census
}

/// Returns the phase of a group; one that no scheduler has seen waits.
fn phase(group: &PodGroup) -> PodGroupPhase {
    group.phase().unwrap_or(PodGroupPhase::Pending)
}

fn lay_out(queues: &[Queue], census: &Census, wide: bool) -> Vec<String> {
    let row = |queue: &Queue| table::Row { namespace: String::new(), cells: cells(queue, census) };
    let rows: Vec<table::Row> = queues.iter().map(row).collect();
    Layout::new(View { wide, namespace: false }).render(&table::build(&COLUMNS, &WIDE_COLUMNS, &rows))
}

fn cells(queue: &Queue, census: &Census) -> Vec<String> {
    use PodGroupPhase::{Completed, Inqueue, Pending, Running, Unknown};
    let name = queue.name_any();
    let count = |phase| census.get(&name).and_then(|phases| phases.get(&phase)).copied().unwrap_or(0).to_string();
    let spec = &queue.spec;
    let state = super::state::of(queue).to_string();
    let own = [name.clone(), spec.parent.clone(), spec.weight().to_string(), state];
    let counts = [Inqueue, Pending, Running, Unknown, Completed].map(count);
    let amounts = lists(queue).map(|(_, list)| amounts(list));
    own.into_iter().chain(counts).chain([spec.is_reclaimable().to_string()]).chain(amounts).collect()
}

/// Returns what a queue uses and what it may use, from the least to the most.
fn lists(queue: &Queue) -> [(&'static str, Option<&ResourceList>); 4] {
    let QueueSpec { guarantee, deserved, capability, .. } = &queue.spec;
    [
        ("ALLOCATED", queue.status.as_ref().and_then(|status| status.allocated.as_ref())),
        ("GUARANTEE", guarantee.as_ref().and_then(|guarantee| guarantee.resource.as_ref())),
        ("DESERVED", deserved.as_ref()),
        ("CAPABILITY", capability.as_ref()),
    ]
}

fn amounts(list: Option<&ResourceList>) -> String {
    let amounts: Vec<String> =
        list.into_iter().flatten().map(|(name, amount)| format!("{name}={}", amount.0)).collect();
    if amounts.is_empty() { "-".to_owned() } else { amounts.join(",") }
}

/// Lays out what a queue uses and may use, one line for each resource.
fn shares(queue: &Queue) -> Vec<String> {
    let lists = lists(queue);
    let names: BTreeSet<&String> =
        lists.iter().flat_map(|(_, list)| list.iter().flat_map(|list| list.keys())).collect();
    let row = |name: &String| {
        let amount = |(_, list): (_, Option<&ResourceList>)| {
            list.and_then(|list| list.get(name)).map_or("-".to_owned(), |amount| amount.0.clone())
        };
        [name.clone()].into_iter().chain(lists.map(amount)).collect()
    };
    let columns: Vec<&str> = ["RESOURCE"].into_iter().chain(lists.map(|(title, _)| title)).collect();
    table::render(&columns, names.into_iter().map(row).collect())
}

/// Lays out the groups that are in a queue and have not ended.
fn members(groups: &[PodGroup], queue: &str, now: Timestamp) -> Vec<String> {
    let is_inside =
        |group: &&PodGroup| jobs::queue(&group.spec.queue) == queue && phase(group) != PodGroupPhase::Completed;
    let row = |group: &PodGroup| {
        let owner = group.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let of = owner.map_or(group.name_any(), |owner| format!("{}/{}", owner.kind.to_lowercase(), owner.name));
        vec![
            group.namespace().unwrap_or_default(),
            of,
            phase(group).to_string(),
            group.spec.min_member.to_string(),
            age_since(group.creation_timestamp().map(|time| time.0), now),
            jobs::unschedulable(group).unwrap_or_default(),
        ]
    };
    let columns = ["NAMESPACE", "GROUP OF", "STATUS", "MINMEMBER", "AGE", "MESSAGE"];
    table::render(&columns, groups.iter().filter(is_inside).map(row).collect())
}

/// Counts the groups that keep a queue from being closed.
pub fn count_inside(groups: &[PodGroup], queue: &str) -> usize {
    let phases = census(groups).remove(queue).unwrap_or_default();
    phases.into_iter().filter(|(phase, _)| *phase != PodGroupPhase::Completed).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(queue: &str, phase: Value) -> PodGroup {
        let owner = json!({"apiVersion": "v", "kind": "Job", "name": "mnist", "uid": "u1", "controller": true});
        let metadata = json!({"name": "g", "namespace": "ml", "ownerReferences": [owner],
            "creationTimestamp": "2026-01-01T00:00:00Z"});
        let condition = json!({"type": "Unschedulable", "status": "True", "message": "queue is full"});
        let status = json!({"phase": phase, "conditions": [condition]});
        serde_json::from_value(
            json!({"metadata": metadata, "spec": {"queue": queue, "minMember": 3}, "status": status}),
        )
        .unwrap()
    }

    fn groups() -> Vec<PodGroup> {
        vec![
            group("gpu", json!("Running")),
            group("gpu", json!("Pending")),
            group("gpu", json!("Completed")),
            group("", json!(null)),
        ]
    }

    fn queue() -> Queue {
        let spec =
            json!({"parent": "root", "weight": 2, "capability": {"cpu": 8, "memory": "1Gi"}, "deserved": {"cpu": 4}});
        let status = json!({"state": "Closing", "allocated": {"cpu": "3500m"}});
        serde_json::from_value(json!({"metadata": {"name": "gpu"}, "spec": spec, "status": status})).unwrap()
    }

    fn check(name: &str, lines: Vec<String>, expected: &[&str]) {
        assert_eq!(lines, expected, "{name}");
    }

    #[test]
    fn queues_are_shown_with_the_groups_in_them() {
        let census = census(&groups());
        check(
            "a row",
            lay_out(&[queue()], &census, false),
            &[
                "NAME   PARENT   WEIGHT   STATE     INQUEUE   PENDING   RUNNING   UNKNOWN   COMPLETED",
                "gpu    root     2        Closing   0         1         1         0         1",
            ],
        );
        let wide = lay_out(&[queue()], &census, true).remove(1);
        assert!(wide.ends_with("true          cpu=3500m   -           cpu=4      cpu=8,memory=1Gi"), "{wide}");
        check(
            "its shares",
            shares(&queue()),
            &[
                "RESOURCE   ALLOCATED   GUARANTEE   DESERVED   CAPABILITY",
                "cpu        3500m       -           4          8",
                "memory     -           -           -          1Gi",
            ],
        );
        check("a queue without shares", shares(&Queue::default()), &[]);
    }

    #[test]
    fn groups_that_have_not_ended_are_inside() {
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        check(
            "their owners and reasons are named",
            members(&groups(), "gpu", now),
            &[
                "NAMESPACE   GROUP OF    STATUS    MINMEMBER   AGE   MESSAGE",
                "ml          job/mnist   Running   3           5m",
                "ml          job/mnist   Pending   3           5m    queue is full",
            ],
        );
        assert_eq!(count_inside(&groups(), "gpu"), 2);
        assert_eq!(count_inside(&groups(), "default"), 1);
        assert_eq!(count_inside(&groups(), "none"), 0);
    }
}
