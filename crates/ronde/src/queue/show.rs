//! `ronde queue list` and `ronde queue get`: queues with the groups of pods that are in them.
//!
//! The groups are counted here, as `vcctl` does: the status of a queue no longer says.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::{Client, ResourceExt as _};
use ronde_api::{PodGroup, PodGroupPhase, Queue, QueueSpec, ResourceList};
use serde_json::{Value, json};

use crate::{
    Context,
    args::{GetOutput, QueueGetArgs, QueueListArgs},
    client::{self, ClientError},
    environment,
    failure::{Answer, Outcome},
    get, jobs,
    objects::{self, title},
    printer::{Printer, Reader},
    table::{self, Layout, View, age_since},
    watch::{self, Key, Watch},
};

const COLUMNS: [&str; 9] =
    ["NAME", "PARENT", "WEIGHT", "STATE", "INQUEUE", "PENDING", "RUNNING", "UNKNOWN", "COMPLETED"];
/// The column that says that a queue has gone while it was watched.
const STATE: usize = 3;
const DELETED: &str = "Deleted";
const WIDE_COLUMNS: [&str; 6] = ["RECLAIMABLE", "ALLOCATED", "GUARANTEE", "DESERVED", "CAPABILITY", "MAXJOBS"];

/// Shows all queues.
pub async fn list(args: &QueueListArgs, context: &Context) -> Outcome {
    let client = client::connect_as(&args.cluster).await?;
    let queues = objects::watch::<Queue>(&client, None, &[]).await?;
    if queues.objects().is_empty() {
        context.printer.say("no queues");
    }
    Rows::new(args.output, true, context.printer).follow(&client, queues, args.watch).await
}

/// Shows one queue.
pub async fn get(args: &QueueGetArgs, context: &Context) -> Outcome {
    let client = client::connect_as(&args.cluster).await?;
    let queue = super::fetch(&client, &args.name).await?;
    if args.watch || !matches!(args.output, GetOutput::Table | GetOutput::Wide) {
        let own = objects::watch_one::<Queue>(&client, None, &args.name).await?;
        return Rows::new(args.output, false, context.printer).follow(&client, own, args.watch).await;
    }
    let groups = objects::list::<PodGroup>(&client, None, &[]).await?;
    let queues = objects::list::<Queue>(&client, None, &[]).await?;
    let census = census(&groups);
    let parts = [
        lay_out(std::slice::from_ref(&queue), &census),
        shares(&queue, count_running(&queue.name_any(), &queues, &census)),
        members(&groups, &args.name, environment::now()),
    ];
    let parts: Vec<String> = parts.iter().filter(|part| !part.is_empty()).map(|part| part.join("\n")).collect();
    context.printer.data(parts.join("\n\n"));
    Ok(Answer::Done)
}

/// Queues one to a row, first all and then those that are other than before.
struct Rows {
    output: GetOutput,
    /// There may be several.
    is_list: bool,
    printer: Printer,
    layout: Layout,
    shown: BTreeMap<Key, Row>,
}

#[derive(Debug, Clone, PartialEq)]
struct Row {
    cells: Vec<String>,
    object: Value,
}

impl Rows {
    fn new(output: GetOutput, is_list: bool, printer: Printer) -> Self {
        let layout = Layout::new(View { wide: output == GetOutput::Wide, namespace: false });
        Self { output, is_list, printer, layout, shown: BTreeMap::new() }
    }

    /// Shows queues; with `--watch`, until nobody reads any more.
    async fn follow(mut self, client: &Client, queues: Watch, watch: bool) -> Outcome {
        let mut watches = vec![queues];
        if matches!(self.output, GetOutput::Table | GetOutput::Wide) {
            watches.push(objects::watch::<PodGroup>(client, None, &[]).await?);
        }
        let rows = self.rows(&watches)?;
        let mut reader = match self.output {
            GetOutput::Json | GetOutput::Yaml if self.is_list => {
                let items: Vec<&Value> = rows.values().map(|row| &row.object).collect();
                self.show_object(&json!({"apiVersion": "v1", "kind": "List", "items": items}))
            }
            _ => self.show(&rows),
        };
        self.shown = rows;
        while watch && reader == Reader::There {
            watch::any_changed(&mut watches).await?;
            let rows = self.rows(&watches)?;
            reader = self.show(&changes(&self.shown, &rows));
            self.shown = rows;
        }
        Ok(Answer::Done)
    }

    fn rows(&self, watches: &[Watch]) -> Result<BTreeMap<Key, Row>, ClientError> {
        let census = census(&watches.get(1).map_or(Ok(Vec::new()), Watch::all)?);
        let queues = watches[0].all::<Queue>()?;
        let mut rows = BTreeMap::new();
        for (queue, (key, object)) in queues.iter().zip(watches[0].objects()) {
            // Where only cells are shown, only they count: most changes of an object are not seen in them.
            let object = if watches.len() > 1 { Value::Null } else { object.clone() };
            let mut cells = cells(queue, &census);
            if self.output != GetOutput::Wide {
                cells.truncate(COLUMNS.len());
            }
            rows.insert(key.clone(), Row { cells, object });
        }
        Ok(rows)
    }

    fn show(&mut self, rows: &BTreeMap<Key, Row>) -> Reader {
        if rows.is_empty() {
            return Reader::There;
        }
        match self.output {
            GetOutput::Json | GetOutput::Yaml => {
                rows.values().fold(Reader::There, |_, row| self.show_object(&row.object))
            }
            GetOutput::Name => {
                let titles: Vec<String> = rows.keys().map(|(_, name)| title::<Queue>(name)).collect();
                self.printer.data(titles.join("\n"))
            }
            GetOutput::Table | GetOutput::Wide => {
                let rows: Vec<table::Row> = rows.values().map(|row| table_row(row.cells.clone())).collect();
                self.printer.data(self.layout.render(&table::build(&COLUMNS, &WIDE_COLUMNS, &rows)).join("\n"))
            }
        }
    }

    fn show_object(&self, object: &Value) -> Reader {
        match self.output {
            GetOutput::Yaml => self.printer.data(get::yaml(object)),
            _ => self.printer.data(format_args!("{object:#}")),
        }
    }
}

/// Returns the rows that are new or other than before, and those that have gone.
fn changes(before: &BTreeMap<Key, Row>, now: &BTreeMap<Key, Row>) -> BTreeMap<Key, Row> {
    let changed = now.iter().filter(|(key, row)| before.get(*key) != Some(*row));
    let gone = before.iter().filter(|(key, _)| !now.contains_key(*key)).map(|(key, row)| {
        let mut row = row.clone();
        DELETED.clone_into(&mut row.cells[STATE]);
        (key.clone(), row)
    });
    changed.map(|(key, row)| (key.clone(), row.clone())).chain(gone).collect()
}

fn table_row(cells: Vec<String>) -> table::Row {
    table::Row { namespace: String::new(), cells }
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

fn lay_out(queues: &[Queue], census: &Census) -> Vec<String> {
    let rows: Vec<table::Row> = queues.iter().map(|queue| table_row(cells(queue, census))).collect();
    Layout::new(View { wide: false, namespace: false }).render(&table::build(&COLUMNS, &WIDE_COLUMNS, &rows))
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
    let jobs_max = spec.max_running_jobs.map_or("-".to_owned(), |most| most.to_string());
    let reclaimable = spec.is_reclaimable().to_string();
    own.into_iter().chain(counts).chain([reclaimable]).chain(amounts).chain([jobs_max]).collect()
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

/// Counts the jobs that run in a queue and in those below it.
fn count_running(queue: &str, queues: &[Queue], census: &Census) -> usize {
    let mut found = vec![queue.to_owned()];
    let mut next = 0;
    while let Some(above) = found.get(next).cloned() {
        // Nothing keeps the parents of broken queues from going round in a circle.
        let below = queues.iter().filter(|other| other.spec.parent == above).map(Queue::name_any);
        let below: Vec<String> = below.filter(|name| !found.contains(name)).collect();
        found.extend(below);
        next += 1;
    }
    let phases = found.iter().filter_map(|name| census.get(name)).flatten();
    phases.filter(|(phase, _)| matches!(phase, PodGroupPhase::Running | PodGroupPhase::Unknown)).map(|(_, n)| n).sum()
}

/// Lays out what a queue uses and may use, one line for each resource, and one for a limit on jobs.
fn shares(queue: &Queue, running: usize) -> Vec<String> {
    let lists = lists(queue);
    let names: BTreeSet<&String> =
        lists.iter().flat_map(|(_, list)| list.iter().flat_map(|list| list.keys())).collect();
    let row = |name: &String| {
        let amount = |(_, list): (_, Option<&ResourceList>)| {
            list.and_then(|list| list.get(name)).map_or("-".to_owned(), |amount| amount.0.clone())
        };
        [name.clone()].into_iter().chain(lists.map(amount)).collect()
    };
    let jobs = queue.spec.max_running_jobs.map(|most| {
        let cells = ["running jobs".to_owned(), running.to_string(), "-".to_owned(), "-".to_owned(), most.to_string()];
        cells.to_vec()
    });
    let columns: Vec<&str> = ["RESOURCE"].into_iter().chain(lists.map(|(title, _)| title)).collect();
    table::render(&columns, names.into_iter().map(row).chain(jobs).collect())
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
            lay_out(&[queue()], &census),
            &[
                "NAME   PARENT   WEIGHT   STATE     INQUEUE   PENDING   RUNNING   UNKNOWN   COMPLETED",
                "gpu    root     2        Closing   0         1         1         0         1",
            ],
        );
        let wide = cells(&queue(), &census).split_off(COLUMNS.len());
        assert_eq!(wide, ["true", "cpu=3500m", "-", "cpu=4", "cpu=8,memory=1Gi", "-"]);
        check(
            "its shares",
            shares(&queue(), 1),
            &[
                "RESOURCE   ALLOCATED   GUARANTEE   DESERVED   CAPABILITY",
                "cpu        3500m       -           4          8",
                "memory     -           -           -          1Gi",
            ],
        );
        check("a queue without shares", shares(&Queue::default(), 1), &[]);
    }

    #[test]
    fn a_limit_on_jobs_counts_those_of_the_queues_below() {
        let queue = |name: &str, parent: &str| -> Queue {
            let spec = json!({"parent": parent, "maxRunningJobs": 2});
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
        };
        let queues = [queue("p", "root"), queue("gpu", "p"), queue("x", "y"), queue("y", "x")];
        let census = census(&groups());
        assert_eq!(["p", "gpu", "x"].map(|name| count_running(name, &queues, &census)), [1, 1, 0]);
        check(
            "its limit",
            shares(&queues[0], 1),
            &[
                "RESOURCE       ALLOCATED   GUARANTEE   DESERVED   CAPABILITY",
                "running jobs   1           -           -          2",
            ],
        );
        assert_eq!(cells(&queues[0], &census).last().map(String::as_str), Some("2"));
    }

    #[test]
    fn a_watch_shows_what_is_other_than_before() {
        assert_eq!(COLUMNS[STATE], "STATE");
        let rows = |queues: &[(&str, &str)]| -> BTreeMap<Key, Row> {
            let row = |(name, state): &(&str, &str)| {
                let cells = [*name, "root", "1", *state].map(str::to_owned).to_vec();
                ((String::new(), (*name).to_owned()), Row { cells, object: Value::Null })
            };
            queues.iter().map(row).collect()
        };
        let before = rows(&[("a", "Open"), ("b", "Open"), ("c", "Open")]);
        let now = rows(&[("a", "Open"), ("b", "Closing"), ("d", "Open")]);
        let shown: Vec<String> =
            changes(&before, &now).values().map(|row| format!("{} {}", row.cells[0], row.cells[STATE])).collect();
        assert_eq!(shown, ["b Closing", "c Deleted", "d Open"]);
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
