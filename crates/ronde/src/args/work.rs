//! The command line of the verbs for jobs, their pods and their queues.

use std::path::PathBuf;

use clap::{ArgAction, Args as ClapArgs, Subcommand, ValueEnum};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use ronde_api::{DequeueStrategy, Duration, ResourceList};

use super::{ClusterArgs, GetOutput, parse_quantity};
use crate::arena::JobType;

/// Whether to wait for what was asked for, and for how long.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub struct WaitArgs {
    /// Wait until it is done; `--wait=false` returns as soon as it is asked for.
    #[arg(long, value_name = "BOOL", default_value_t = true, hide_default_value = true, hide_possible_values = true)]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub wait: bool,

    /// Give up waiting after this time, as in `30s` or `2h`; what was asked for goes on.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    pub timeout: Duration,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct DeleteArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Kind and then names, as in `pods web db`; or `KIND/NAME`, as in `pod/web vcjob/mnist`; or, if the first is no
    /// kind, jobs.
    #[arg(value_name = "KIND NAME|JOB", required_unless_present = "files", conflicts_with = "files")]
    pub words: Vec<String>,

    /// Manifest, or a directory of them (.yaml, .yml, .json); `-` reads stdin. May be repeated.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Namespace of objects that name none [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Objects that are not there count as deleted; called as `arena`, jobs do so anyway.
    #[arg(long)]
    pub ignore_not_found: bool,

    /// Jobs that are not there are a failure, also when called as `arena`.
    #[arg(long, conflicts_with = "ignore_not_found")]
    pub fail_not_found: bool,

    /// The names are those of jobs, of this type.
    #[arg(short = 'T', long = "type", value_name = "TYPE", conflicts_with = "files")]
    pub job_type: Option<JobType>,

    /// What becomes of the objects that belong to them.
    #[arg(long, value_name = "HOW", default_value = "background")]
    pub cascade: CascadeArg,

    #[command(flatten)]
    pub wait: WaitArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CascadeArg {
    /// They are deleted after them.
    Background,
    /// They are deleted before them.
    Foreground,
    /// They stay.
    Orphan,
}

#[derive(Debug, Clone, Default, ClapArgs)]
pub struct ListArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Namespace to look in [default: the context's].
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,

    /// Look in all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Only jobs of this queue.
    #[arg(short = 'Q', long, value_name = "NAME")]
    pub queue: Option<String>,

    /// Only jobs of this type.
    #[arg(short = 'T', long = "type", value_name = "TYPE")]
    pub job_type: Option<JobType>,

    /// Go on showing changes until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,

    /// How to write them; `wide` says what waiting jobs wait for and how long jobs are expected to run.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: GetOutput,
}

#[derive(Debug, Clone, Default, ClapArgs)]
pub struct LogsArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of a pod or, if there is no such pod, of a job; `pod/NAME`, `vcjob/NAME` and `trainingjob/NAME` leave no doubt.
    #[arg(value_name = "POD|JOB")]
    pub name: String,

    /// Namespace to look in [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Only pods of this task of the job.
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,

    /// Only the pod with this index, in each task.
    #[arg(long, value_name = "N")]
    pub index: Option<u32>,

    /// Container of the pod, if it has several [default: of a job, the first].
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,

    /// Go on until the container, or the job, ends or Ctrl-C.
    #[arg(short, long)]
    pub follow: bool,

    /// Only the last lines; -1 for all.
    #[arg(short, long, value_name = "LINES", allow_negative_numbers = true)]
    pub tail: Option<i64>,

    /// Only what was written since then, as in `1h2m3s`.
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "since_time")]
    pub since: Option<Duration>,

    /// Only what was written since this moment, as in `2026-01-02T15:04:05Z`.
    #[arg(long, value_name = "MOMENT")]
    pub since_time: Option<String>,

    /// Write in front of each line when it was written.
    #[arg(long)]
    pub timestamps: bool,

    /// All pods of the job; of a training job else only the launcher, which writes what the ranks say.
    #[arg(short, long, conflicts_with = "instance")]
    pub all: bool,

    /// Only this pod of the job.
    #[arg(short, long, value_name = "POD", conflicts_with_all = ["task", "index"])]
    pub instance: Option<String>,

    /// Type of the job, if there are several of its name.
    #[arg(short = 'T', long = "type", value_name = "TYPE")]
    pub job_type: Option<JobType>,

    /// Of the run before the last restart.
    #[arg(short, long, conflicts_with = "follow")]
    pub previous: bool,
}

impl LogsArgs {
    /// All that a job writes.
    pub fn to_the_end(name: &str) -> Self {
        Self { name: name.to_owned(), follow: true, ..Self::default() }
    }

    /// Whether only a job can be meant.
    pub fn is_of_job(&self) -> bool {
        self.all || self.task.is_some() || self.index.is_some() || self.instance.is_some() || self.job_type.is_some()
    }
}

#[derive(Debug, Clone, ClapArgs)]
#[command(disable_help_subcommand = true)]
pub struct JobArgs {
    #[command(subcommand)]
    pub verb: JobVerb,
}

/// What to do with a job.
#[derive(Debug, Clone, Subcommand)]
pub enum JobVerb {
    /// Stop its pods and keep the job for later.
    Suspend(JobVerbArgs),
    /// Go on with a suspended job; pods that have succeeded do not run again.
    Resume(JobVerbArgs),
    /// Run all of its pods anew.
    Restart(JobVerbArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub struct JobVerbArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of the job.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Namespace of the job [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    #[command(flatten)]
    pub wait: WaitArgs,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(disable_help_subcommand = true)]
pub struct QueueArgs {
    #[command(subcommand)]
    pub verb: QueueVerb,
}

/// What to do with queues.
#[derive(Debug, Clone, Subcommand)]
pub enum QueueVerb {
    /// List queues, and how many groups of pods are in each.
    List(QueueListArgs),
    /// Show a queue: its shares, what is used of them, and who is in it.
    Get(QueueGetArgs),
    /// Create a queue.
    Create(QueueCreateArgs),
    /// Let a queue take new jobs, and those below that were closed with it.
    Open(QueueStateArgs),
    /// Let a queue, and those below it, take no more jobs; those in it go on.
    Close(QueueStateArgs),
    /// Delete a queue that has none below it.
    Delete(QueueDeleteArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub struct QueueListArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Go on showing changes until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,

    /// How to write them; `wide` shows their shares.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: GetOutput,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct QueueGetArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of the queue.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Show its row, and go on showing changes until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,

    /// How to write it.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: GetOutput,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct QueueCreateArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of the queue.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Share of the queue beside its siblings, from 1 to 65535.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=65_535))]
    pub weight: i32,

    /// The queue that it is a part of [default: root].
    #[arg(long, value_name = "NAME")]
    pub parent: Option<String>,

    /// What it may use at most, as in `cpu=8,memory=32Gi,nvidia.com/gpu=4`.
    #[arg(long, value_name = "AMOUNTS", value_parser = parse_amounts)]
    pub capability: Option<Amounts>,

    /// What it may count on; what it uses beyond can be reclaimed.
    #[arg(long, value_name = "AMOUNTS", value_parser = parse_amounts)]
    pub deserved: Option<Amounts>,

    /// What is kept for it also while it does not use it.
    #[arg(long, value_name = "AMOUNTS", value_parser = parse_amounts)]
    pub guarantee: Option<Amounts>,

    /// Whether other queues may take back what it uses beyond its share [default: true].
    #[arg(long, value_name = "BOOL", hide_possible_values = true)]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub reclaimable: Option<bool>,

    /// Queues of a higher priority come first.
    #[arg(long, value_name = "N")]
    pub priority: Option<i32>,

    /// `fifo`: who waits first goes first; `traverse`: who fits goes first [default: traverse].
    #[arg(long, value_name = "HOW")]
    pub dequeue_strategy: Option<DequeueStrategy>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct QueueStateArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of the queue.
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub wait: WaitArgs,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct QueueDeleteArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of the queue.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// A queue that is not there counts as deleted.
    #[arg(long)]
    pub ignore_not_found: bool,

    #[command(flatten)]
    pub wait: WaitArgs,
}

/// Amounts of resources as one argument.
#[derive(Debug, Clone, PartialEq)]
pub struct Amounts(pub ResourceList);

/// Reads `cpu=8,memory=32Gi`.
fn parse_amounts(text: &str) -> Result<Amounts, String> {
    let mut amounts = ResourceList::new();
    for part in text.split(',') {
        let (name, amount) = part.split_once('=').ok_or_else(|| format!("`{part}` is not like `cpu=8`"))?;
        if name.is_empty() {
            return Err(format!("`{part}` names no resource"));
        }
        parse_quantity(amount).map_err(|error| format!("`{part}`: {error}"))?;
        if amounts.insert(name.to_owned(), Quantity(amount.to_owned())).is_some() {
            return Err(format!("`{name}` stands there twice"));
        }
    }
    Ok(Amounts(amounts))
}

pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error: ronde_api::DurationError| error.to_string())?;
    if time.is_negative() { Err("is in the past".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let shown = parse_amounts(text).map(|Amounts(amounts)| {
            amounts.iter().map(|(name, amount)| format!("{name}: {}", amount.0)).collect::<Vec<_>>().join("; ")
        });
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn amounts_are_read_by_name() {
        check("cpu=4", Ok("cpu: 4"));
        check("cpu=500m,memory=8Gi,nvidia.com/gpu=2", Ok("cpu: 500m; memory: 8Gi; nvidia.com/gpu: 2"));
        check("cpu", Err("`cpu` is not like `cpu=8`"));
        check("=4", Err("`=4` names no resource"));
        check("cpu=4,", Err("`` is not like `cpu=8`"));
        check("cpu=4,cpu=5", Err("`cpu` stands there twice"));
        assert!(parse_amounts("cpu=many").unwrap_err().starts_with("`cpu=many`: "));
    }

    #[test]
    fn times_have_a_unit_and_are_not_in_the_past() {
        assert_eq!(parse_time("90s"), Ok(Duration::from_seconds(90)));
        assert_eq!(parse_time("-1s"), Err("is in the past".to_owned()));
        assert!(parse_time("5").unwrap_err().contains("5s"));
    }
}
