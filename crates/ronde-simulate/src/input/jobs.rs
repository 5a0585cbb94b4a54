//! Files of jobs: our own, as a table or as YAML, and public traces; the form is recognised.
//!
//! Our own have one row, or one entry of a list, for each job. Columns: `name`, `arrival` (`1h30m` since the beginning, or a
//! date), `queue`, `replicas`, `min`, `max`, `elastic` (`auto` or nothing), `gpu`, `cpu`, `memory` and `resources.NAME` for one
//! pod, `run` (`2h`, or seconds), `priority`, `user`, `checkpoint`, `selector.LABEL`.

use std::{collections::BTreeMap, fmt, sync::Arc};

use ronde_scheduler::{Amounts, PodSpec};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use super::{InputError, csv, put, traces};
use crate::{
    scenario::Job,
    span::{Span, parse_moment},
};

/// The queue of jobs that name none.
const QUEUE: &str = "default";
/// Moments above this are dates, not lengths of time since the beginning: two years.
const DATES_FROM: i64 = 63_072_000_000;

/// The jobs of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work {
    pub jobs: Vec<Job>,
    /// What the file is, for people: `Philly`.
    pub format: &'static str,
    /// Jobs of a trace that cannot be simulated, by the reason.
    pub skipped: BTreeMap<&'static str, usize>,
}

/// Reads a file of jobs, whatever form it has.
///
/// # Errors
/// If it has none of the forms, or a job is wrong; the error names the line.
pub fn read(text: &str) -> Result<Work, InputError> {
    let begins = text.trim_start().chars().next();
    if begins == Some('[') && text.contains("\"attempts\"") {
        return traces::philly::read(text).map(since_the_first);
    }
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    if traces::alibaba::is_task_table(first) {
        return traces::alibaba::read_tasks(text).map(since_the_first);
    }
    if !first.contains(',') || matches!(begins, Some('[' | '{' | '-')) {
        return yaml(text);
    }
    let table = csv::Table::read(text)?;
    if traces::helios::is(&table) {
        return traces::helios::read(&table).map(since_the_first);
    }
    if traces::alibaba::is_pod_list(&table) {
        return traces::alibaba::read_pods(&table).map(since_the_first);
    }
    own_table(&table)
}

/// Lets a trace begin with its first job.
fn since_the_first(mut work: Work) -> Work {
    let first = work.jobs.iter().map(|job| job.arrival).min().unwrap_or(0);
    work.jobs.iter_mut().for_each(|job| job.arrival -= first);
    work.jobs.sort_by(|a, b| (a.arrival, &a.group.id).cmp(&(b.arrival, &b.group.id)));
    work
}

fn own(jobs: Vec<Job>) -> Result<Work, InputError> {
    let mut names = std::collections::BTreeSet::new();
    if let Some(twice) = jobs.iter().find(|job| !names.insert(&job.group.id)) {
        return Err(InputError::Whole(format!("two jobs are called `{}`", twice.group.id.name())));
    }
    let work = Work { jobs, format: "jobs", skipped: BTreeMap::new() };
    let has_dates = work.jobs.iter().any(|job| job.arrival > DATES_FROM);
    Ok(if has_dates { since_the_first(work) } else { work })
}

fn own_table(table: &csv::Table) -> Result<Work, InputError> {
    let known =
        |column: &str| COLUMNS.contains(&column) || column.starts_with("resources.") || column.starts_with("selector.");
    if let Some(unknown) = table.columns().find(|column| !known(column)) {
        let known = COLUMNS.join(", ");
        return Err(InputError::at(
            1,
            format!("there is no column `{unknown}`; the columns are {known}, resources.NAME, selector.LABEL"),
        ));
    }
    let row = |(number, row): (usize, csv::Row<'_>)| {
        let mut fields: BTreeMap<String, String> = BTreeMap::new();
        for column in table.columns() {
            let text = row.text(column);
            if !text.is_empty() {
                fields.insert(column.to_owned(), text.to_owned());
            }
        }
        job(&fields, number).map_err(|why| row.wrong(why))
    };
    own(table.rows().enumerate().map(row).collect::<Result<_, _>>()?)
}

const COLUMNS: [&str; 14] = [
    "name",
    "arrival",
    "queue",
    "replicas",
    "min",
    "max",
    "elastic",
    "gpu",
    "cpu",
    "memory",
    "run",
    "priority",
    "user",
    "checkpoint",
];

/// A text or a number: YAML makes numbers of what looks like one.
#[derive(Debug)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A job in YAML: the columns, with `resources` and `selector` as maps.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<Text>,
    arrival: Option<Text>,
    queue: Option<Text>,
    replicas: Option<Text>,
    min: Option<Text>,
    max: Option<Text>,
    elastic: Option<Text>,
    gpu: Option<Text>,
    cpu: Option<Text>,
    memory: Option<Text>,
    run: Option<Text>,
    priority: Option<Text>,
    user: Option<Text>,
    checkpoint: Option<Text>,
    #[serde(default)]
    resources: BTreeMap<String, Text>,
    #[serde(default)]
    selector: BTreeMap<String, Text>,
}

impl Entry {
    fn fields(self) -> BTreeMap<String, String> {
        let named = [
            ("name", self.name),
            ("arrival", self.arrival),
            ("queue", self.queue),
            ("replicas", self.replicas),
            ("min", self.min),
            ("max", self.max),
            ("elastic", self.elastic),
            ("gpu", self.gpu),
            ("cpu", self.cpu),
            ("memory", self.memory),
            ("run", self.run),
            ("priority", self.priority),
            ("user", self.user),
            ("checkpoint", self.checkpoint),
        ];
        let named = named.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.0)));
        let below = |prefix: &'static str, all: BTreeMap<String, Text>| {
            all.into_iter().map(move |(key, text)| (format!("{prefix}.{key}"), text.0))
        };
        named.chain(below("resources", self.resources)).chain(below("selector", self.selector)).collect()
    }
}

fn yaml(text: &str) -> Result<Work, InputError> {
    let entries: Vec<Entry> = serde_saphyr::from_str(text).map_err(|error| {
        InputError::Whole(error.to_string().lines().next().unwrap_or("this is no list of jobs").to_owned())
    })?;
    let build = |(number, entry): (usize, Entry)| {
        let fields = entry.fields();
        let name = fields.get("name").cloned().unwrap_or_else(|| format!("number {}", number + 1));
        job(&fields, number).map_err(|why| InputError::Whole(format!("job `{name}`: {why}")))
    };
    own(entries.into_iter().enumerate().map(build).collect::<Result<_, _>>()?)
}

/// Builds a job from its fields; those that are not there have a default.
fn job(fields: &BTreeMap<String, String>, number: usize) -> Result<Job, String> {
    let get = |key: &str| fields.get(key).map(String::as_str);
    let count = |key: &str, otherwise: u32| {
        get(key).map_or(Ok(otherwise), |text| text.parse().map_err(|_| format!("{key} {text:?} is no number")))
    };
    let span = |key: &str| {
        let read = |text: &str| text.parse::<Span>().ok().filter(|span| span.0 >= 0);
        get(key)
            .map(|text| {
                read(text).map(|span| span.0).ok_or(format!("{key} {text:?} is no length of time, such as `2h`"))
            })
            .transpose()
    };
    let replicas = count("replicas", 1)?;
    let name = get("name").map_or_else(|| format!("job-{}", number + 1), str::to_owned);
    let sizes = (count("min", replicas)?, replicas);
    let mut job = Job::uniform(&name, get("queue").unwrap_or(QUEUE), sizes, Amounts::default())
        .map_err(|error| error.to_string())?;
    job = with_requests(job, fields)?;
    let auto = match get("elastic") {
        None | Some("" | "false" | "manual") => false,
        Some("auto" | "true") => true,
        Some(other) => return Err(format!("elastic is `auto` or nothing, not {other:?}")),
    };
    let max = count("max", replicas)?;
    if auto || max != replicas {
        job = job.with_max(max, auto).map_err(|error| error.to_string())?;
    }
    let arrival = get("arrival").map(|text| {
        parse_moment(text).ok_or(format!("arrival {text:?} is no moment, such as `1h30m` or `2026-01-31 08:00:00`"))
    });
    job.arrival = arrival.transpose()?.unwrap_or(0);
    (job.run, job.checkpoint) = (span("run")?, span("checkpoint")?);
    get("user").unwrap_or_default().clone_into(&mut job.user);
    job.group.priority =
        get("priority").map_or(Ok(0), |text| text.parse().map_err(|_| format!("priority {text:?} is no number")))?;
    Ok(job)
}

/// Sets what a pod of a job asks for and where it wants to be.
fn with_requests(mut job: Job, fields: &BTreeMap<String, String>) -> Result<Job, String> {
    let mut spec = PodSpec::default();
    for (key, value) in fields {
        match key.split_once('.').unwrap_or((key, "")) {
            ("gpu" | "cpu" | "memory", "") => put(&mut spec.requests, key, value)?,
            ("resources", name) => put(&mut spec.requests, name, value)?,
            ("selector", label) => _ = spec.node_selector.insert(label.to_owned(), value.clone()),
            _ => {}
        }
    }
    let mut tasks = std::mem::take(&mut job.tasks);
    let spec = Arc::new(spec);
    tasks.iter_mut().for_each(|task| task.spec = spec.clone());
    job.group.min_resources = None;
    Job::new(job.group, tasks).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(job: &Job) -> String {
        let (task, group) = (&job.tasks[0], &job.group);
        format!(
            "{} {} {}/{}{} {} at {} run {}",
            group.id.name(),
            group.queue,
            group.min_member,
            task.replicas,
            job.elastic
                .map(|elastic| format!("/{}{}", elastic.max, if elastic.auto { " auto" } else { "" }))
                .unwrap_or_default(),
            task.spec.requests,
            Span(job.arrival),
            job.run.map_or("?".to_owned(), |run| Span(run).to_string()),
        )
    }

    #[track_caller]
    fn check(name: &str, text: &str, expected: &[&str]) {
        let work = read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(work.jobs.iter().map(shown).collect::<Vec<_>>(), expected, "{name}");
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        assert_eq!(read(text).expect_err(text).to_string(), expected);
    }

    #[test]
    fn our_own_jobs_are_read() {
        let table = "name,arrival,queue,replicas,min,max,elastic,gpu,run\n\
                     mnist,10m,team-a,4,2,8,auto,1,2h\n\
                     ,0,,1,,,,0.5,\n";
        refused(&table.replace("0.5", "x"), "line 3: \"x\" is no amount of nvidia.com/gpu, such as `8` or `512Gi`");
        let both = [
            "mnist team-a 2/4/8 auto 1 nvidia.com/gpu at 10m run 2h",
            "job-2 default 1/1 1 nvidia.com/gpu at 0s run ?",
        ];
        check("a table", table, &both);
        let yaml = "- name: mnist\n  arrival: 10m\n  queue: team-a\n  replicas: 4\n  min: 2\n  max: 8\n  elastic: auto\n  gpu: 1\n  run: 2h\n- gpu: 1\n";
        check("yaml", yaml, &both);
        let dates = "name,arrival,run\na,2026-01-31 08:00:00,60\nb,2026-01-31T09:00:00Z,1h\n";
        check("dates", dates, &["a default 1/1  at 0s run 1m", "b default 1/1  at 1h run 1h"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        refused(
            "name,colour\na,red\n",
            &format!(
                "line 1: there is no column `colour`; the columns are {}, resources.NAME, selector.LABEL",
                COLUMNS.join(", ")
            ),
        );
        refused("name,run\na,1h\na,2h\n", "two jobs are called `a`");
        refused("name,replicas,min\na,1,2\n", "line 2: `min` is 2, and `replicas` is 1");
        refused("name,replicas,max\na,4,2\n", "line 2: `max` is 2, and `replicas` is 4");
        refused("name,replicas\na,0\n", "line 2: it has no pods");
        refused("name,run\na,soon\n", "line 2: run \"soon\" is no length of time, such as `2h`");
        refused("- {name: a, replicas: 0}\n", "job `a`: it has no pods");
        refused("name,elastic\na,perhaps\n", "line 2: elastic is `auto` or nothing, not \"perhaps\"");
    }
}
