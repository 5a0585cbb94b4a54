//! Microsoft's Philly: `cluster_job_log`, JSON. The pods of a job are the machines of its last attempt, and it runs as long
//! as all its attempts together.

use std::sync::Arc;

use ronde_scheduler::{Group, GroupId, Labels, PodSpec};
use serde::Deserialize;

use super::{NO_END, NO_PODS, NO_RUN, empty, requests, skip};
use crate::{
    input::{InputError, jobs::Work},
    scenario::{Job, Task},
    span::parse_moment,
};

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    vc: String,
    jobid: String,
    #[serde(default)]
    attempts: Vec<Attempt>,
    submitted_time: Option<String>,
    #[serde(default)]
    user: String,
}

#[derive(Deserialize)]
struct Attempt {
    start_time: Option<String>,
    end_time: Option<String>,
    #[serde(default)]
    detail: Vec<Machine>,
}

#[derive(Deserialize)]
struct Machine {
    #[serde(default)]
    gpus: Vec<String>,
}

pub fn read(text: &str) -> Result<Work, InputError> {
    let entries: Vec<Entry> = serde_json::from_str(text)
        .map_err(|error| InputError::at(error.line(), format!("this is no job of Philly: {error}")))?;
    let mut work = empty("Philly");
    for entry in entries {
        match job(&entry)? {
            Ok(job) => work.jobs.push(job),
            Err(why) => skip(&mut work.skipped, why),
        }
    }
    Ok(work)
}

fn job(entry: &Entry) -> Result<Result<Job, &'static str>, InputError> {
    let moment = |text: &Option<String>| text.as_deref().and_then(parse_moment);
    let Some(arrival) = moment(&entry.submitted_time) else {
        return Err(InputError::Whole(format!("job `{}` has no `submitted_time`", entry.jobid)));
    };
    let Some(last) = entry.attempts.last() else { return Ok(Err(NO_RUN)) };
    if last.start_time.is_some() && moment(&last.end_time).is_none() {
        return Ok(Err(NO_END));
    }
    let length = |attempt: &Attempt| Some((moment(&attempt.end_time)? - moment(&attempt.start_time)?).max(0));
    let run: i64 = entry.attempts.iter().filter_map(length).sum();
    let mut sizes: Vec<i64> =
        last.detail.iter().map(|machine| i64::try_from(machine.gpus.len()).unwrap_or(i64::MAX)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let task = |(number, sizes): (usize, &[i64])| Task {
        name: format!("part-{number}").into(),
        replicas: u32::try_from(sizes.len()).unwrap_or(u32::MAX),
        spec: Arc::new(PodSpec { requests: requests(sizes[0], 0, 0), ..PodSpec::default() }),
        labels: Labels::new(),
    };
    let tasks: Vec<Task> = sizes.chunk_by(|a, b| a == b).enumerate().map(task).collect();
    let pods = tasks.iter().map(|task| task.replicas).sum();
    let group = Group::new(GroupId::new("sim", &entry.jobid), &entry.vc, pods);
    let Ok(mut job) = Job::new(group, tasks) else { return Ok(Err(NO_PODS)) };
    (job.arrival, job.run) = (arrival, Some(run.max(1)));
    job.user.clone_from(&entry.user);
    Ok(Ok(job))
}
