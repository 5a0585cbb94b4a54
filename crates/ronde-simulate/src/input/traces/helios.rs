//! SenseTime's Helios: `cluster_log.csv`. A job has one pod for each of its nodes; its GPUs and CPUs are spread over them.

use super::{NO_PODS, NO_RUN, empty, requests, skip};
use crate::{
    input::{
        InputError,
        csv::{Row, Table},
        jobs::Work,
    },
    scenario::Job,
    span::parse_moment,
};

const COLUMNS: [&str; 6] = ["job_id", "vc", "gpu_num", "node_num", "submit_time", "duration"];

pub fn is(table: &Table) -> bool {
    COLUMNS.iter().all(|column| table.has(column))
}

pub fn read(table: &Table) -> Result<Work, InputError> {
    let mut work = empty("Helios");
    for row in table.rows() {
        match job(&row)? {
            Ok(job) => work.jobs.push(job),
            Err(why) => skip(&mut work.skipped, why),
        }
    }
    Ok(work)
}

fn job(row: &Row<'_>) -> Result<Result<Job, &'static str>, InputError> {
    let submitted = row.text("submit_time");
    let arrival =
        parse_moment(submitted).ok_or_else(|| row.wrong(format!("submit_time {submitted:?} is no moment")))?;
    let run = row.integer("duration")?;
    if run <= 0 {
        return Ok(Err(NO_RUN));
    }
    let nodes = row.integer("node_num")?.max(1);
    let each = |all: i64| all.saturating_add(nodes - 1).div_euclid(nodes);
    let (gpu, cpu) = (each(row.integer("gpu_num")?.max(0)), each(row.integer("cpu_num")?.max(0)));
    if gpu == 0 && cpu == 0 {
        return Ok(Err(NO_PODS));
    }
    let pods = u32::try_from(nodes).unwrap_or(u32::MAX);
    let request = requests(gpu, cpu.saturating_mul(1000), 0);
    let built = Job::uniform(row.text("job_id"), row.text("vc"), (pods, pods), request);
    let mut job = built.map_err(|error| row.wrong(error))?;
    (job.arrival, job.run) = (arrival, Some(run.saturating_mul(1000)));
    row.text("user").clone_into(&mut job.user);
    Ok(Ok(job))
}
