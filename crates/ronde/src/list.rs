//! `ronde list`: the jobs, with the words of `kubectl get vcjob`, and why those wait that do.
//!
//! A row is made of whatever kind of job. Called as `arena` the columns are arena's, see [`arena`].

pub mod arena;

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{Client, ResourceExt as _};
use ronde_api::{Job, JobPhase, PodGroup, TrainingJob};
use serde_json::{Value, json};

use crate::{
    Context,
    arena::JobType,
    args::{GetArgs, GetOutput, ListArgs},
    client::{self, ClientError},
    environment,
    failure::{Answer, Outcome},
    get,
    jobs::{
        self,
        any::{AnyJob, State},
        by_job,
    },
    mirror::{self, Key, Mirror},
    objects,
    printer::{Printer, Reader},
    table::{self, Layout, View, age_since},
};

const COLUMNS: [&str; 6] = ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE", "QUEUE"];
const WIDE_COLUMNS: [&str; 2] = ["ESTIMATE", "MESSAGE"];
/// The status of a job that has gone while it was watched.
const DELETED: &str = "Deleted";

/// Runs the verb.
pub fn run(args: &ListArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let own = args.namespace.as_deref().unwrap_or(client.default_namespace());
        let namespace = (!args.all_namespaces).then_some(own);
        if context.caller.is_arena && !args.watch {
            let scope = arena::Scope { namespace, job_type: args.job_type };
            return arena::run(&client, scope, args.output, context).await;
        }
        show(&client, (namespace, None), args, context.printer).await
    })
}

/// Shows one job as it changes.
pub async fn watch_one(client: &Client, job: &AnyJob, args: &GetArgs, printer: Printer) -> Outcome {
    let args = ListArgs { watch: true, output: args.output, ..ListArgs::default() };
    show(client, (Some(job.namespace()), Some(&job.title())), &args, printer).await
}

/// Shows the jobs of a namespace, or of all, or the one with a title.
async fn show(
    client: &Client,
    (namespace, title): (Option<&str>, Option<&str>),
    args: &ListArgs,
    printer: Printer,
) -> Outcome {
    let mut mirrors = vec![objects::mirror::<Job>(client, namespace, &[]).await?];
    mirrors.push(objects::mirror::<PodGroup>(client, namespace, &[]).await?);
    mirrors.extend(objects::mirror_if_served::<TrainingJob>(client, namespace).await?);
    let mut list = List { title, ..List::new(args, printer) };
    let rows = list.rows(&mirrors)?;
    if rows.is_empty() {
        printer.say(nothing(namespace, args.queue.as_deref()));
    }
    let mut reader = list.show_all(rows);
    while args.watch && reader == Reader::There {
        mirror::any_changed(&mut mirrors).await?;
        reader = list.show_changes(list.rows(&mirrors)?);
    }
    Ok(Answer::Done)
}

/// Says what was looked for when nothing was found.
fn nothing(namespace: Option<&str>, queue: Option<&str>) -> String {
    let queue = queue.map(|queue| format!(" of queue `{queue}`")).unwrap_or_default();
    match namespace {
        Some(namespace) => format!("no jobs{queue} in namespace `{namespace}` (use -A for all namespaces)"),
        None => format!("no jobs{queue}"),
    }
}

/// A job as it is listed.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    name: String,
    status: String,
    min_available: i32,
    running: i32,
    created: Option<Timestamp>,
    queue: String,
    estimate: String,
    message: String,
    /// Whether it waits for its start, or to go on.
    waits: bool,
    /// The name with its kind.
    title: String,
    /// As the sentence, only where it is shown: in a watch, rows that look the same are shown once.
    object: Option<Value>,
}

impl Row {
    fn of_training(job: TrainingJob) -> Self {
        let min = job.spec.worker().min_replicas();
        let job = AnyJob::from(job);
        Self {
            name: job.name(),
            status: job.phase_word(),
            min_available: min.saturating_add(1),
            running: i32::try_from(job.running()).unwrap_or(i32::MAX),
            created: job.created(),
            queue: job.queue().to_owned(),
            estimate: "-".to_owned(),
            message: job.message().unwrap_or_default(),
            waits: job.state() == State::Pending,
            title: job.title(),
            object: None,
        }
    }

    fn of(job: &Job, group: Option<&PodGroup>) -> Self {
        let status = job.status.clone().unwrap_or_default();
        Self {
            name: job.name_any(),
            status: jobs::phase(job).to_string(),
            min_available: job.status.as_ref().map_or(job.spec.min_available, |status| status.min_available),
            running: status.running,
            created: job.creation_timestamp().map(|time| time.0),
            queue: jobs::queue(&job.spec.queue).to_owned(),
            estimate: jobs::estimate(job).unwrap_or_else(|| "-".to_owned()),
            message: jobs::reason(job, group).unwrap_or_default(),
            waits: matches!(jobs::phase(job), JobPhase::Pending | JobPhase::Restarting),
            title: objects::title::<Job>(&job.name_any()),
            object: None,
        }
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let Self { name, status, min_available, running, created, queue, estimate, message, .. } = self.clone();
        let (least, running, age) = (min_available.to_string(), running.to_string(), age_since(created, now));
        vec![name, status, least, running, age, queue, estimate, message]
    }
}

struct List<'a> {
    args: &'a ListArgs,
    /// The one job that is shown.
    title: Option<&'a str>,
    printer: Printer,
    layout: Layout,
    shown: BTreeMap<Key, Row>,
}

impl<'a> List<'a> {
    fn new(args: &'a ListArgs, printer: Printer) -> Self {
        let view = View { wide: args.output == GetOutput::Wide, namespace: args.all_namespaces };
        Self { args, title: None, printer, layout: Layout::new(view), shown: BTreeMap::new() }
    }

    /// Tells whether the sentence about a job is shown: in a wide table always, in another of a job that waits.
    fn shows_message(&self, waits: bool) -> bool {
        match self.args.output {
            GetOutput::Wide => true,
            GetOutput::Table => waits,
            GetOutput::Json | GetOutput::Yaml | GetOutput::Name => false,
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self.args.output, GetOutput::Json | GetOutput::Yaml)
    }

    /// Makes the rows from mirrors of jobs, of groups for the reasons, and of training jobs if there are such.
    fn rows(&self, mirrors: &[Mirror]) -> Result<BTreeMap<Key, Row>, ClientError> {
        let groups = by_job(mirrors[1].all()?);
        let batch = mirrors[0].all::<Job>()?.into_iter().map(|job| {
            let row = Row::of(&job, groups.get(jobs::uid(&job)));
            (JobType::of_batch(&job), row)
        });
        let training = mirrors.get(2).map_or(Ok(Vec::new()), Mirror::all::<TrainingJob>)?.into_iter();
        let training = training.map(|job| (JobType::of_training(&job), Row::of_training(job)));
        let objects = mirrors[0].objects().iter().chain(mirrors.get(2).into_iter().flat_map(Mirror::objects));
        let mut rows = BTreeMap::new();
        for ((job_type, mut row), ((namespace, _), object)) in batch.chain(training).zip(objects) {
            row.object = self.is_whole().then(|| object.clone());
            if !self.shows_message(row.waits) {
                row.message.clear();
            }
            let is_wanted = self.args.job_type.is_none_or(|wanted| job_type == wanted)
                && self.title.is_none_or(|wanted| row.title == wanted);
            if is_wanted && self.args.queue.as_ref().is_none_or(|queue| *queue == row.queue) {
                // Two jobs of different kinds may have one name.
                rows.insert((namespace.clone(), row.name.clone() + " " + &row.title), row);
            }
        }
        Ok(rows)
    }

    fn show_all(&mut self, rows: BTreeMap<Key, Row>) -> Reader {
        self.shown.clone_from(&rows);
        if !self.is_whole() {
            return self.show(rows);
        }
        let items: Vec<Value> = rows.into_values().filter_map(|row| row.object).collect();
        self.show_object(&json!({"apiVersion": "v1", "kind": "List", "items": items}))
    }

    fn show_changes(&mut self, rows: BTreeMap<Key, Row>) -> Reader {
        let changed = changes(&self.shown, &rows);
        self.shown = rows;
        self.show(changed)
    }

    fn show(&mut self, rows: BTreeMap<Key, Row>) -> Reader {
        if rows.is_empty() {
            return Reader::There;
        }
        match self.args.output {
            GetOutput::Json | GetOutput::Yaml => {
                let objects = rows.into_values().filter_map(|row| row.object);
                objects.fold(Reader::There, |_, object| self.show_object(&object))
            }
            GetOutput::Name => {
                let titles: Vec<&str> = rows.values().map(|row| row.title.as_str()).collect();
                self.printer.data(titles.join("\n"))
            }
            GetOutput::Table | GetOutput::Wide => {
                let now = environment::now();
                let is_wide = self.args.output == GetOutput::Wide;
                // In a watch columns cannot come and go.
                let has_message = !is_wide && (self.args.watch || rows.values().any(|row| !row.message.is_empty()));
                let row = |((namespace, _), row): (Key, Row)| table::Row { namespace, cells: row.cells(now) };
                let rows: Vec<table::Row> = rows.into_iter().map(row).collect();
                let table =
                    if has_message { without_estimate(rows) } else { table::build(&COLUMNS, &WIDE_COLUMNS, &rows) };
                let lines = self.layout.render(&table);
                self.printer.data(lines.join("\n"))
            }
        }
    }

    fn show_object(&self, object: &Value) -> Reader {
        match self.args.output {
            GetOutput::Yaml => self.printer.data(get::yaml(object)),
            _ => self.printer.data(format_args!("{object:#}")),
        }
    }
}

/// Builds a table that is not wide and says what jobs wait for.
fn without_estimate(mut rows: Vec<table::Row>) -> Value {
    let [_, message] = WIDE_COLUMNS;
    let columns: Vec<&str> = COLUMNS.into_iter().chain([message]).collect();
    rows.iter_mut().for_each(|row| drop(row.cells.remove(COLUMNS.len())));
    table::build(&columns, &[], &rows)
}

/// Returns the rows that are new or other than before, and those that have gone.
fn changes(before: &BTreeMap<Key, Row>, now: &BTreeMap<Key, Row>) -> BTreeMap<Key, Row> {
    let changed = now.iter().filter(|(key, row)| before.get(*key) != Some(*row));
    let changed = changed.map(|(key, row)| (key.clone(), row.clone()));
    let gone = before.iter().filter(|(key, _)| !now.contains_key(*key));
    let farewell = |row: &Row| Row { status: DELETED.to_owned(), message: String::new(), ..row.clone() };
    let gone = gone.map(|(key, row)| (key.clone(), farewell(row)));
    changed.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, phase: &str) -> Job {
        let status = json!({"state": {"phase": phase}, "minAvailable": 3, "running": 2});
        let spec = json!({"queue": "gpu", "runningEstimate": "2h"});
        let metadata = json!({"name": name, "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn rows(names: &[(&str, &str)]) -> BTreeMap<Key, Row> {
        let row =
            |(name, phase): &(&str, &str)| ((String::new(), (*name).to_owned()), Row::of(&job(name, phase), None));
        names.iter().map(row).collect()
    }

    #[test]
    fn a_job_has_the_cells_of_kubectl_and_a_sentence() {
        let group = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "Unschedulable", "status": "True", "message": "needs 4 CPUs"}]}});
        let group: PodGroup = serde_json::from_value(group).unwrap();
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let cells = Row::of(&job("mnist", "Pending"), Some(&group)).cells(now);
        assert_eq!(cells, ["mnist", "Pending", "3", "2", "5m", "gpu", "2h", "needs 4 CPUs"]);
        assert_eq!(cells.len(), COLUMNS.len() + WIDE_COLUMNS.len());
    }

    #[test]
    fn a_job_that_no_controller_has_seen_waits_in_the_default_queue() {
        let mut job = job("mnist", "Running");
        (job.status, job.spec.queue, job.spec.min_available) = (None, String::new(), 4);
        let row = Row::of(&job, None);
        assert_eq!((row.status.as_str(), row.min_available, row.queue.as_str()), ("Pending", 4, "default"));
    }

    #[test]
    fn a_watch_shows_what_is_other_than_before() {
        let before = rows(&[("a", "Running"), ("b", "Running"), ("c", "Pending")]);
        let now = rows(&[("a", "Running"), ("b", "Completed"), ("d", "Pending")]);
        let shown: Vec<String> =
            changes(&before, &now).values().map(|row| format!("{} {}", row.name, row.status)).collect();
        assert_eq!(shown, ["b Completed", "c Deleted", "d Pending"]);
    }

    #[test]
    fn an_empty_list_says_what_was_looked_for() {
        assert_eq!(nothing(Some("ml"), None), "no jobs in namespace `ml` (use -A for all namespaces)");
        assert_eq!(nothing(None, Some("gpu")), "no jobs of queue `gpu`");
    }
}
