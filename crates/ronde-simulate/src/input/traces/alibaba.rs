//! Alibaba's GPU clusters: `pai_task_table.csv` of 2020, where the tasks of a job are one gang, and `openb_pod_list_*.csv` of
//! 2023, where every pod is a job. Neither has queues; the user of a job is not in these tables.

use std::{collections::BTreeMap, sync::Arc};

use ronde_scheduler::{
    Group, GroupId, Labels, NodeAffinity, NodeSelector, NodeSelectorTerm, Operator, PodSpec, Requirement,
};

use super::{NO_END, NO_PODS, NO_RUN, empty, requests, skip};
use crate::{
    input::{
        InputError,
        csv::{Row, Table},
        jobs::Work,
    },
    scenario::{Job, Task},
};

/// The columns of the table of tasks, which is published without them.
const TASKS: [&str; 10] = [
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
];
const STATUS: [&str; 4] = ["Running", "Terminated", "Failed", "Waiting"];
const PODS: [&str; 6] = ["cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time", "scheduled_time"];
const QUEUE: &str = "default";
const GIB: f64 = 1_073_741_824.0;

/// Tells the table of tasks by its first line, with or without names.
pub fn is_task_table(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    fields == TASKS || fields.len() == TASKS.len() && STATUS.contains(&fields[3])
}

pub fn is_pod_list(table: &Table) -> bool {
    PODS.iter().all(|column| table.has(column))
}

/// What is known of a job after some of its rows.
#[derive(Default)]
struct Parts {
    tasks: Vec<Task>,
    begin: Option<i64>,
    end: Option<i64>,
    is_open: bool,
}

pub fn read_tasks(text: &str) -> Result<Work, InputError> {
    let table =
        if text.trim_start().starts_with(TASKS[0]) { Table::read(text)? } else { Table::read_as(&TASKS, text)? };
    let mut jobs: BTreeMap<String, Parts> = BTreeMap::new();
    for row in table.rows() {
        let parts = jobs.entry(row.text("job_name").to_owned()).or_default();
        if row.text("start_time").is_empty() {
            continue;
        }
        parts.tasks.push(task(&row)?);
        let begin = row.integer("start_time")?;
        parts.begin = Some(parts.begin.map_or(begin, |known| known.min(begin)));
        if row.text("end_time").is_empty() {
            parts.is_open = true;
        } else {
            parts.end = parts.end.max(Some(row.integer("end_time")?));
        }
    }
    let mut work = empty("Alibaba 2020");
    for (name, parts) in jobs {
        match built(&name, parts) {
            Ok(job) => work.jobs.push(job),
            Err(why) => skip(&mut work.skipped, why),
        }
    }
    Ok(work)
}

fn task(row: &Row<'_>) -> Result<Task, InputError> {
    let gpus = row.integer("plan_gpu")?.saturating_add(99).div_euclid(100);
    let memory = row.text("plan_mem").parse::<f64>().unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
    let memory = (memory.max(0.0) * GIB) as i64;
    // In hundredths of a CPU.
    let cpu = row.integer("plan_cpu")?.saturating_mul(10);
    Ok(Task {
        name: row.text("task_name").into(),
        replicas: u32::try_from(row.integer("inst_num")?).map_err(|_| row.wrong("inst_num is out of range"))?,
        spec: Arc::new(PodSpec { requests: requests(gpus, cpu, memory), ..PodSpec::default() }),
        labels: Labels::new(),
    })
}

fn built(name: &str, parts: Parts) -> Result<Job, &'static str> {
    let begin = parts.begin.ok_or(NO_RUN)?;
    let end = parts.end.filter(|_| !parts.is_open).ok_or(NO_END)?;
    let pods = parts.tasks.iter().fold(0, |sum: u32, task| sum.saturating_add(task.replicas));
    let group = Group::new(GroupId::new("sim", name), QUEUE, pods);
    let mut job = Job::new(group, parts.tasks).map_err(|_| NO_PODS)?;
    (job.arrival, job.run) = (begin.saturating_mul(1000), Some((end - begin).max(1).saturating_mul(1000)));
    Ok(job)
}

pub fn read_pods(table: &Table) -> Result<Work, InputError> {
    let mut work = empty("Alibaba 2023");
    for row in table.rows() {
        match pod(&row)? {
            Ok(job) => work.jobs.push(job),
            Err(why) => skip(&mut work.skipped, why),
        }
    }
    Ok(work)
}

fn pod(row: &Row<'_>) -> Result<Result<Job, &'static str>, InputError> {
    if row.text("scheduled_time").is_empty() {
        return Ok(Err(NO_RUN));
    }
    if row.text("deletion_time").is_empty() {
        return Ok(Err(NO_END));
    }
    let run = row.integer("deletion_time")? - row.integer("scheduled_time")?;
    let memory = row.integer("memory_mib")?.saturating_mul(1 << 20);
    let request = requests(row.integer("num_gpu")?, row.integer("cpu_milli")?, memory);
    let mut job = Job::uniform(row.text("name"), QUEUE, (1, 1), request).map_err(|error| row.wrong(error))?;
    // Models that will do, as `V100M16|V100M32`; a label of the nodes of that trace.
    let models: Vec<String> =
        row.text("gpu_spec").split('|').filter(|model| !model.is_empty()).map(str::to_owned).collect();
    if !models.is_empty() {
        let one_of = Requirement { key: "gpu-model".to_owned(), operator: Operator::In, values: models };
        let term = NodeSelectorTerm { expressions: vec![one_of], fields: Vec::new() };
        let required = Some(NodeSelector { terms: vec![term] });
        Arc::make_mut(&mut job.tasks[0].spec).node_affinity = NodeAffinity { required, preferred: Vec::new() };
    }
    job.arrival = row.integer("creation_time")?.saturating_mul(1000);
    job.run = Some(run.max(1).saturating_mul(1000));
    Ok(Ok(job))
}
