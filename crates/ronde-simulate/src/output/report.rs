//! What a history comes to: waits, use, fairness, preemptions, gains. Pure numbers; [`Report::summary`] words them.

use std::collections::BTreeMap;

use ronde_scheduler::CPU;
use serde_json::{Value, json};

use crate::{
    engine::{
        BREAKS_MAX,
        history::{History, Record},
    },
    scenario::{Job, Scenario},
    span::Span,
};

/// Jobs that are named of those that never started.
const NAMED_MAX: usize = 10;
/// More jobs than this are not listed one by one.
const LISTED_MAX: usize = 20;
const HOUR: f64 = 3_600_000.0;

/// The sum of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub jobs: usize,
    pub ended: usize,
    /// Started and not ended.
    pub running: usize,
    pub nodes: usize,
    /// From the beginning to the last event.
    pub makespan: i64,
    pub waits: Waits,
    /// What matters most, as users call it: `gpu`.
    pub unit: String,
    /// By resource, as parts of one.
    pub utilisation: Vec<(String, f64)>,
    /// Jain's index of how much of their part the queues had while somebody waited; none if nobody ever did.
    pub fairness: Option<f64>,
    pub queues: Vec<Part>,
    pub sizes: Vec<Part>,
    /// Gangs that lost pods to a higher priority, and to another queue's part.
    pub preempted: usize,
    pub reclaimed: usize,
    pub evicted_pods: u32,
    /// How often a gang broke while it ran, and the work that was lost with it.
    pub breaks: u32,
    pub lost: i64,
    pub elastic: Option<Gains>,
    /// What became of each job, if they are few.
    pub fates: Vec<Fate>,
    /// Jobs that did not start, with the reason; the first of them.
    pub stuck: Vec<(String, String)>,
    pub stuck_total: usize,
    /// The job that was pushed out so often that the simulation was given up.
    pub circle: Option<String>,
}

/// How long jobs waited for their first start; those that never started, until the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    pub p50: i64,
    pub p95: i64,
    pub longest: i64,
    pub mean: i64,
}

/// Jobs that have something in common.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Part {
    pub name: String,
    pub jobs: usize,
    pub waits: Waits,
    /// What they used, in units times hours.
    pub hours: f64,
    /// The part of all that was used.
    pub share: f64,
}

/// What became of a job; times are since the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    pub name: String,
    pub queue: String,
    pub arrives: i64,
    pub starts: Option<i64>,
    pub ends: Option<i64>,
}

/// What jobs won by changing their size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gains {
    pub jobs: usize,
    pub resizes: u32,
    /// How long they ran, and would have run at the size that they ask for.
    pub ran: i64,
    pub asked: i64,
}

impl Report {
    pub fn new(scenario: &Scenario, history: &History) -> Self {
        let records = &history.records;
        let never: Vec<usize> = (0..records.len()).filter(|number| records[*number].first_start.is_none()).collect();
        let ended = records.iter().filter(|record| record.end.is_some()).count();
        let name = |number: &usize| scenario.jobs[*number].group.id.name().to_owned();
        let why = |number: &usize| {
            let told = records[*number].waits.as_ref().map(|(_, message)| message.clone());
            (name(number), told.unwrap_or_else(|| "the simulation ended before its turn".to_owned()))
        };
        Self {
            jobs: records.len(),
            ended,
            running: records.len() - ended - never.len(),
            nodes: history.nodes,
            makespan: history.end - history.begin,
            waits: waits(history, 0..records.len()),
            unit: unit(&history.resource),
            utilisation: utilisation(history),
            fairness: fairness(history),
            queues: by_queue(scenario, history),
            sizes: by_size(scenario, history),
            preempted: history.preemptions.iter().filter(|event| !event.reclaimed).count(),
            reclaimed: history.preemptions.iter().filter(|event| event.reclaimed).count(),
            evicted_pods: history.preemptions.iter().map(|event| event.pods).sum(),
            breaks: records.iter().map(|record| record.breaks).sum(),
            lost: records.iter().map(|record| record.lost).sum(),
            elastic: gains(scenario, records),
            fates: fates(scenario, history),
            stuck: never.iter().take(NAMED_MAX).map(why).collect(),
            stuck_total: never.len(),
            circle: history.circle.as_ref().map(name),
        }
    }

    /// Returns what there is to say, as names and values.
    pub fn summary(&self) -> Vec<(String, String)> {
        let mut rows = vec![
            ("jobs".to_owned(), self.count_fates()),
            ("nodes".to_owned(), self.nodes.to_string()),
            ("makespan".to_owned(), Span(self.makespan).to_string()),
            ("wait p50".to_owned(), Span(self.waits.p50).to_string()),
            ("wait p95".to_owned(), Span(self.waits.p95).to_string()),
            ("wait longest".to_owned(), Span(self.waits.longest).to_string()),
        ];
        rows.extend(self.utilisation.iter().map(|(name, part)| (format!("use of {name}"), percent(*part))));
        let fairness = self.fairness.map_or("nobody waited for room".to_owned(), |index| format!("{index:.2}"));
        rows.push(("fairness".to_owned(), fairness));
        rows.push(("preemptions".to_owned(), self.pushed_out()));
        if self.breaks > 0 {
            rows.push(("broken gangs".to_owned(), format!("{}, {} of work lost", self.breaks, Span(self.lost))));
        }
        let given_up = |job: &String| format!("given up: `{job}` was pushed out {BREAKS_MAX} times");
        rows.extend(self.circle.as_ref().map(|job| ("circle".to_owned(), given_up(job))));
        rows.extend(self.elastic.map(|gains| ("elastic".to_owned(), gains.to_words())));
        rows
    }

    fn count_fates(&self) -> String {
        let mut fates = vec![format!("{} ended", self.ended)];
        if self.running > 0 {
            fates.push(format!("{} still run", self.running));
        }
        if self.stuck_total > 0 {
            fates.push(format!("{} never started", self.stuck_total));
        }
        if fates.len() == 1 {
            format!("{}, all ended", self.jobs)
        } else {
            format!("{}: {}", self.jobs, fates.join(", "))
        }
    }

    fn pushed_out(&self) -> String {
        match (self.preempted, self.reclaimed) {
            (0, 0) => "none".to_owned(),
            (preempted, 0) => format!("{preempted} by priority"),
            (0, reclaimed) => format!("{reclaimed} between queues"),
            (preempted, reclaimed) => format!("{preempted} by priority, {reclaimed} between queues"),
        }
    }

    /// The columns of [`Report::rows`]; the first is for the caller to name.
    pub fn columns(&self) -> [String; 6] {
        let hours = format!("{}-HOURS", self.unit.to_uppercase());
        ["JOBS".to_owned(), "WAIT P50".to_owned(), "P95".to_owned(), "LONGEST".to_owned(), hours, "SHARE".to_owned()]
    }

    /// Returns queues or sizes as rows.
    pub fn rows(parts: &[Part]) -> Vec<Vec<String>> {
        let row = |part: &Part| {
            let Waits { p50, p95, longest, .. } = part.waits;
            let waits = [p50, p95, longest].map(|wait| Span(wait).to_string());
            let hours = format!("{:.1}", part.hours);
            [vec![part.name.clone(), part.jobs.to_string()], waits.to_vec(), vec![hours, percent(part.share)]].concat()
        };
        parts.iter().map(row).collect()
    }

    /// The columns of [`Report::job_rows`].
    pub const JOB_COLUMNS: [&str; 5] = ["JOB", "QUEUE", "ARRIVES", "STARTS", "ENDS"];

    /// Returns the jobs as rows, if they are few.
    pub fn job_rows(&self) -> Vec<Vec<String>> {
        let moment = |at: Option<i64>| at.map_or("-".to_owned(), |at| Span(at).to_string());
        let row = |fate: &Fate| {
            let times = [Some(fate.arrives), fate.starts, fate.ends].map(moment);
            [vec![fate.name.clone(), fate.queue.clone()], times.to_vec()].concat()
        };
        self.fates.iter().map(row).collect()
    }

    /// Returns everything for programs; times are in seconds.
    pub fn to_json(&self) -> Value {
        let part = |part: &Part| json!({"name": part.name, "jobs": part.jobs, "wait": waits_json(part.waits), "hours": part.hours, "share": part.share});
        let fate = |fate: &Fate| {
            json!({"name": fate.name, "queue": fate.queue, "arrivesSeconds": seconds(fate.arrives),
                "startsSeconds": fate.starts.map(seconds), "endsSeconds": fate.ends.map(seconds)})
        };
        let stuck = |(name, why): &(String, String)| json!({"job": name, "reason": why});
        let utilisation: serde_json::Map<String, Value> =
            self.utilisation.iter().map(|(name, part)| (name.clone(), json!(part))).collect();
        json!({
            "jobs": self.jobs, "ended": self.ended, "running": self.running, "neverStarted": self.stuck_total,
            "nodes": self.nodes, "makespanSeconds": seconds(self.makespan), "wait": waits_json(self.waits),
            "utilisation": utilisation, "fairness": self.fairness, "unit": self.unit,
            "queues": self.queues.iter().map(part).collect::<Vec<_>>(),
            "sizes": self.sizes.iter().map(part).collect::<Vec<_>>(),
            "preemptions": {"byPriority": self.preempted, "betweenQueues": self.reclaimed, "pods": self.evicted_pods},
            "brokenGangs": {"count": self.breaks, "lostSeconds": seconds(self.lost)},
            "elastic": self.elastic.map(|gains| json!({"jobs": gains.jobs, "resizes": gains.resizes,
                "ranSeconds": seconds(gains.ran), "atAskedSizeSeconds": seconds(gains.asked)})),
            "fates": self.fates.iter().map(fate).collect::<Vec<_>>(),
            "circle": self.circle,
            "stuck": self.stuck.iter().map(stuck).collect::<Vec<_>>(),
        })
    }
}

impl Gains {
    fn to_words(self) -> String {
        let jobs = if self.jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", self.jobs) };
        let saved = (self.asked - self.ran) as f64 / i64::max(self.asked, 1) as f64;
        let how = match saved {
            saved if saved >= 0.005 => format!("{} shorter", percent(saved)),
            saved if saved <= -0.005 => format!("{} longer", percent(-saved)),
            _ => "as long".to_owned(),
        };
        format!("{jobs} changed size {} times and ran {how} than at the size asked for", self.resizes)
    }
}

fn waits_json(waits: Waits) -> Value {
    let Waits { p50, p95, longest, mean } = waits;
    json!({"p50Seconds": seconds(p50), "p95Seconds": seconds(p95), "longestSeconds": seconds(longest), "meanSeconds": seconds(mean)})
}

fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

fn percent(part: f64) -> String {
    format!("{:.0}%", part * 100.0)
}

/// `gpu` for `nvidia.com/gpu`.
fn unit(resource: &str) -> String {
    resource.rsplit('/').next().unwrap_or(resource).to_owned()
}

/// What one counts of a resource: CPUs are kept in thousandths.
fn pieces(resource: &str, amount: f64) -> f64 {
    if resource == CPU { amount / 1000.0 } else { amount }
}

fn fates(scenario: &Scenario, history: &History) -> Vec<Fate> {
    if scenario.jobs.len() > LISTED_MAX {
        return Vec::new();
    }
    let since = |at: i64| at - history.begin;
    let fate = |(job, record): (&Job, &Record)| Fate {
        name: job.group.id.name().to_owned(),
        queue: job.group.queue.to_string(),
        arrives: since(record.arrival),
        starts: record.first_start.map(since),
        ends: record.end.map(since),
    };
    scenario.jobs.iter().zip(&history.records).map(fate).collect()
}

fn waits(history: &History, jobs: impl Iterator<Item = usize>) -> Waits {
    let wait = |record: &Record| record.wait().unwrap_or(history.end - record.arrival).max(0);
    let mut all: Vec<i64> = jobs.map(|number| wait(&history.records[number])).collect();
    all.sort_unstable();
    let Some(longest) = all.last().copied() else { return Waits::default() };
    // The nearest rank: the least that so many do not exceed.
    let rank = |part: usize| all[(all.len() * part).div_ceil(100).max(1) - 1];
    let mean = all.iter().map(|wait| i128::from(*wait)).sum::<i128>() / all.len() as i128;
    Waits { p50: rank(50), p95: rank(95), longest, mean: i64::try_from(mean).unwrap_or(i64::MAX) }
}

fn utilisation(history: &History) -> Vec<(String, f64)> {
    let part = |(name, used, there): &(ronde_scheduler::ResourceName, i128, i128)| {
        (name.to_string(), *used as f64 / i128::max(*there, 1) as f64)
    };
    history.usage.iter().map(part).collect()
}

/// Jain's index over the queues that were entitled to something: 1 if all had the same part of it.
fn fairness(history: &History) -> Option<f64> {
    let entitled = history.shares.iter().filter(|share| share.entitled > 0);
    let parts: Vec<f64> = entitled.map(|share| f64::min(share.had as f64 / share.entitled as f64, 1.0)).collect();
    let (sum, squares) = (parts.iter().sum::<f64>(), parts.iter().map(|part| part * part).sum::<f64>());
    match parts.len() {
        0 => None,
        _ if squares == 0.0 => Some(1.0),
        count => Some(sum * sum / (count as f64 * squares)),
    }
}

fn by_queue(scenario: &Scenario, history: &History) -> Vec<Part> {
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); history.queues.len()];
    let numbers: BTreeMap<_, _> = history.queues.iter().enumerate().map(|(number, name)| (name, number)).collect();
    for (job, known) in scenario.jobs.iter().enumerate() {
        if let Some(queue) = numbers.get(&known.group.queue) {
            members[*queue].push(job);
        }
    }
    let total: i128 = history.shares.iter().map(|share| share.used).sum();
    let part = |(number, jobs): (usize, Vec<usize>)| {
        let used = history.shares[number].used;
        Part {
            name: history.queues[number].to_string(),
            jobs: jobs.len(),
            waits: waits(history, jobs.into_iter()),
            hours: pieces(&history.resource, used as f64) / HOUR,
            share: used as f64 / i128::max(total, 1) as f64,
        }
    };
    members.into_iter().enumerate().filter(|(_, jobs)| !jobs.is_empty()).map(part).collect()
}

/// Groups jobs by what they ask for, in powers of two.
fn by_size(scenario: &Scenario, history: &History) -> Vec<Part> {
    let mut members: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (number, job) in scenario.jobs.iter().enumerate() {
        let size = pieces(&history.resource, job.total(&history.resource) as f64).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "amounts are positive, and a float saturates"
        )]
        let size = size.max(0.0) as u64;
        members.entry(if size == 0 { 0 } else { size.next_power_of_two() }).or_default().push(number);
    }
    let used = |number: &usize| {
        let (record, job) = (&history.records[*number], &scenario.jobs[*number]);
        let each = job.total(&history.resource) as f64 / f64::from(job.replicas().max(1));
        let time = record.segments.iter().fold(0.0, |all, run| all + (run.to - run.from) as f64 * f64::from(run.pods));
        pieces(&history.resource, each * time) / HOUR
    };
    let unit = unit(&history.resource);
    let all: f64 = (0..scenario.jobs.len()).map(|number| used(&number)).sum();
    let part = |(most, jobs): (u64, Vec<usize>)| {
        // Not `sum()`: that of nothing is -0.
        let hours = jobs.iter().map(used).fold(0.0, |all, one| all + one);
        let name = match most {
            0..=2 => format!("{most} {unit}"),
            _ => format!("{}-{most} {unit}", most / 2 + 1),
        };
        Part {
            name,
            jobs: jobs.len(),
            waits: waits(history, jobs.into_iter()),
            hours,
            share: hours / f64::max(all, 1e-9),
        }
    };
    members.into_iter().map(part).collect()
}

fn gains(scenario: &Scenario, records: &[Record]) -> Option<Gains> {
    let mut gains = Gains { jobs: 0, resizes: 0, ran: 0, asked: 0 };
    for (job, record) in scenario.jobs.iter().zip(records) {
        let is_auto = job.elastic.is_some_and(|elastic| elastic.auto);
        let (true, Some(run), Some(_), 0) = (is_auto, job.run, record.end, record.breaks) else { continue };
        gains.jobs += 1;
        gains.resizes += record.resizes;
        gains.ran += record.ran();
        gains.asked += run;
    }
    (gains.jobs > 0).then_some(gains)
}
