//! `ronde list`: the jobs, with the words of `kubectl get vcjob`, and why those wait or have failed that do.
//!
//! A row is made of whatever kind of job. Called as `arena` the columns are arena's, see [`arena`].

pub mod arena;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use ronde_api::{Job, PodGroup, TrainingJob};
use serde_json::{Value, json};

use crate::{
    Context,
    arena::JobType,
    args::{GetArgs, GetOutput, ListArgs},
    client::{self, ClientError},
    environment,
    failure::{Answer, Failure, Outcome},
    get,
    jobs::{
        self,
        any::{AnyJob, State},
        by_job,
        trouble::{self, Warnings},
    },
    objects,
    printer::{Printer, Reader},
    table::{self, Layout, View, age_since},
    watch::{self, Key, Watch},
};

const COLUMNS: [&str; 7] = ["NAME", "TYPE", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE", "QUEUE"];
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
    let mut sources = Sources::start(client, namespace).await?;
    let mut list = List { title, ..List::new(args, printer) };
    let rows = list.explained_rows(&mut sources).await?;
    if rows.is_empty() {
        printer.say(nothing(namespace, args.queue.as_deref()));
    }
    let mut reader = list.show_all(rows);
    while args.watch && reader == Reader::There {
        watch::any_changed(&mut sources.watches).await?;
        let rows = list.explained_rows(&mut sources).await?;
        reader = list.show_changes(rows);
    }
    Ok(Answer::Done)
}

/// What rows are made from.
struct Sources<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    /// Jobs and groups, then training jobs if there are such, then pods and what they complain about.
    watches: Vec<Watch>,
    training: Option<usize>,
    /// Where the pods are, once somebody has asked for them: there may be very many.
    pods: Option<usize>,
}

impl<'a> Sources<'a> {
    async fn start(client: &'a Client, namespace: Option<&'a str>) -> Result<Self, Box<dyn Failure>> {
        let mut watches = vec![objects::watch::<Job>(client, namespace, &[]).await?];
        watches.push(objects::watch::<PodGroup>(client, namespace, &[]).await?);
        let training = objects::watch_if_served::<TrainingJob>(client, namespace).await?;
        let place = training.is_some().then_some(watches.len());
        watches.extend(training);
        Ok(Self { client, namespace, watches, training: place, pods: None })
    }

    async fn follow_pods(&mut self) -> Result<(), Box<dyn Failure>> {
        self.pods = Some(self.watches.len());
        self.watches.push(objects::watch::<Pod>(self.client, self.namespace, &[]).await?);
        self.watches.push(objects::watch::<Event>(self.client, self.namespace, &[trouble::OF_PODS]).await?);
        Ok(())
    }

    /// Returns the jobs, each with the object that it was read from.
    fn jobs(&self) -> Result<Vec<(AnyJob, &Value)>, ClientError> {
        let of = |place: usize| self.watches[place].objects().values();
        let batch = self.watches[0].all::<Job>()?.into_iter().map(AnyJob::from).zip(of(0));
        let training = match self.training {
            Some(place) => {
                self.watches[place].all::<TrainingJob>()?.into_iter().map(AnyJob::from).zip(of(place)).collect()
            }
            None => Vec::new(),
        };
        Ok(batch.chain(training).collect())
    }

    fn pods(&self) -> Result<(BTreeMap<String, Vec<Pod>>, Warnings), ClientError> {
        let Some(place) = self.pods else { return Ok(Default::default()) };
        let warnings = Warnings::of(&self.watches[place + 1].all()?);
        Ok((trouble::by_owner(self.watches[place].all()?), warnings))
    }
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
    job_type: JobType,
    status: String,
    min_available: i32,
    running: i64,
    created: Option<Timestamp>,
    queue: String,
    estimate: String,
    message: String,
    state: State,
    /// Whether its numbers say everything.
    is_fine: bool,
    /// The name with its kind.
    title: String,
    /// As the sentence, only where it is shown: in a watch, rows that look the same are shown once.
    object: Option<Value>,
}

impl Row {
    fn of(job: &AnyJob, group: Option<&PodGroup>) -> Self {
        let (estimate, message) = match job {
            AnyJob::Batch(job) => (jobs::estimate(job), jobs::reason(job, group)),
            AnyJob::Training(_) => (None, job.message()),
        };
        Self {
            name: job.name(),
            job_type: job.job_type(),
            status: job.phase_word(),
            min_available: job.min_available(),
            running: job.running(),
            created: job.created(),
            queue: job.queue().to_owned(),
            estimate: estimate.unwrap_or_else(|| "-".to_owned()),
            message: message.unwrap_or_default(),
            state: job.state(),
            is_fine: matches!(job, AnyJob::Batch(job) if jobs::is_fine(job, group)),
            title: job.title(),
            object: None,
        }
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let Self { name, job_type, status, min_available, running, created, queue, estimate, message, .. } =
            self.clone();
        let (least, running, age) = (min_available.to_string(), running.to_string(), age_since(created, now));
        vec![name, job_type.to_string(), status, least, running, age, queue, estimate, message]
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

    /// Tells whether the sentence about a job is shown: in a wide table always, in another if something is wrong.
    fn shows_message(&self, row: &Row) -> bool {
        match self.args.output {
            GetOutput::Wide => true,
            GetOutput::Table => row.state.shows_reason() && !row.is_fine,
            GetOutput::Json | GetOutput::Yaml | GetOutput::Name => false,
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self.args.output, GetOutput::Json | GetOutput::Yaml)
    }

    /// Makes the rows, and looks at pods if a job does not say why it is where it is.
    async fn explained_rows(&self, sources: &mut Sources<'_>) -> Result<BTreeMap<Key, Row>, Box<dyn Failure>> {
        let rows = self.rows(sources)?;
        let is_unexplained = |row: &Row| row.state.wants_reason() && row.message.is_empty() && self.shows_message(row);
        if sources.pods.is_some() || !rows.values().any(is_unexplained) {
            return Ok(rows);
        }
        sources.follow_pods().await?;
        Ok(self.rows(sources)?)
    }

    fn rows(&self, sources: &Sources<'_>) -> Result<BTreeMap<Key, Row>, ClientError> {
        let groups = by_job(sources.watches[1].all()?);
        let (pods, warnings) = sources.pods()?;
        let mut rows = BTreeMap::new();
        for (job, object) in sources.jobs()? {
            let mut row = Row::of(&job, groups.get(job.uid()));
            if row.state.wants_reason() && row.message.is_empty() {
                let pods = pods.get(job.uid()).map_or(&[][..], Vec::as_slice);
                row.message = trouble::of_job(&job, pods, &warnings).unwrap_or_default();
            }
            row.object = self.is_whole().then(|| object.clone());
            if !self.shows_message(&row) {
                row.message.clear();
            }
            let is_wanted = self.args.job_type.is_none_or(|wanted| row.job_type == wanted)
                && self.title.is_none_or(|wanted| row.title == wanted);
            if is_wanted && self.args.queue.as_ref().is_none_or(|queue| *queue == row.queue) {
                // Two jobs of different kinds may have one name.
                rows.insert((job.namespace().to_owned(), row.name.clone() + " " + &row.title), row);
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

/// Builds a table that is not wide and says what jobs wait for, or why they have failed.
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
        let row = |(name, phase): &(&str, &str)| {
            ((String::new(), (*name).to_owned()), Row::of(&job(name, phase).into(), None))
        };
        names.iter().map(row).collect()
    }

    #[test]
    fn a_job_has_the_cells_of_kubectl_and_a_sentence() {
        let group = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "Unschedulable", "status": "True", "message": "needs 4 CPUs"}]}});
        let group: PodGroup = serde_json::from_value(group).unwrap();
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let cells = Row::of(&job("mnist", "Pending").into(), Some(&group)).cells(now);
        assert_eq!(cells, ["mnist", "volcanojob", "Pending", "3", "2", "5m", "gpu", "2h", "needs 4 CPUs"]);
        assert_eq!(cells.len(), COLUMNS.len() + WIDE_COLUMNS.len());
    }

    #[test]
    fn a_job_that_no_controller_has_seen_waits_in_the_default_queue() {
        let mut job = job("mnist", "Running");
        (job.status, job.spec.queue, job.spec.min_available) = (None, String::new(), 4);
        let row = Row::of(&job.into(), None);
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
