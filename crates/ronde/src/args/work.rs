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
    /// Wait until it is done; `--wait=false` returns at once.
    #[arg(long, value_name = "BOOL", default_value_t = true, hide_default_value = true, hide_possible_values = true)]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub wait: bool,

    /// Stop waiting after this time, as in `30s` or `2h`; the operation continues.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    pub timeout: Duration,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct DeleteArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Kinds and names, as in `pods web db`; `KIND/NAME`, as in `pod/web vcjob/mnist`; or names of jobs.
    #[arg(value_name = "KIND NAME|JOB", required_unless_present = "files", conflicts_with = "files")]
    pub words: Vec<String>,

    /// Delete all objects of the kinds in the namespace.
    #[arg(long, conflicts_with_all = ["files", "selector", "job_type"])]
    pub all: bool,

    /// Delete the objects of the kinds with these labels, as in `app=web,tier!=cache`.
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["files", "job_type"])]
    pub selector: Option<String>,

    /// Manifest, or a directory of them (.yaml, .yml, .json); `-` reads stdin. May be repeated.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Namespace of objects that name none [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Ignore objects that do not exist; called as `arena`, jobs that do not exist are ignored anyway.
    #[arg(long)]
    pub ignore_not_found: bool,

    /// Fail for jobs that do not exist, also when called as `arena`.
    #[arg(long, conflicts_with = "ignore_not_found")]
    pub fail_not_found: bool,

    /// Take the arguments as names of jobs of this type.
    #[arg(short = 'T', long = "type", value_name = "TYPE", conflicts_with = "files")]
    pub job_type: Option<JobType>,

    /// How to delete the objects that they own.
    #[arg(long, value_name = "HOW", default_value = "background")]
    pub cascade: CascadeArg,

    #[command(flatten)]
    pub wait: WaitArgs,
}

impl DeleteArgs {
    /// Whether an object that is gone already is as good as deleted; of those that were listed it is.
    pub fn ignores_missing(&self) -> bool {
        self.ignore_not_found || self.all || self.selector.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CascadeArg {
    /// Delete them afterwards.
    Background,
    /// Delete them first.
    Foreground,
    /// Keep them.
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

    /// Watch for changes until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,

    /// Output format; `wide` adds the expected run time, and a message for every job.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: GetOutput,
}

#[derive(Debug, Clone, Default, ClapArgs)]
pub struct LogsArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of a pod or, if there is no such pod, of a job; or `pod/NAME`, `vcjob/NAME`, `trainingjob/NAME`.
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

    /// Container of the pod, if it has several [default: the first, for a job].
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,

    /// Follow the output until the container or job ends.
    #[arg(short, long)]
    pub follow: bool,

    /// Only the last lines; -1 for all.
    #[arg(short, long, value_name = "LINES", allow_negative_numbers = true)]
    pub tail: Option<i64>,

    /// Only lines newer than this, as in `1h2m3s`.
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "since_time")]
    pub since: Option<Duration>,

    /// Only lines newer than this time, as in `2026-01-02T15:04:05Z`.
    #[arg(long, value_name = "MOMENT")]
    pub since_time: Option<String>,

    /// Print the time before each line.
    #[arg(long)]
    pub timestamps: bool,

    /// All pods of the job; by default only the launcher of a training job, which prints the output of the ranks.
    #[arg(short, long, conflicts_with = "instance")]
    pub all: bool,

    /// Only this pod of the job.
    #[arg(short, long, value_name = "POD", conflicts_with_all = ["task", "index"])]
    pub instance: Option<String>,

    /// Type of the job, if several jobs have its name.
    #[arg(short = 'T', long = "type", value_name = "TYPE")]
    pub job_type: Option<JobType>,

    /// Print the logs of the previous run of the container.
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
pub struct StoryArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of the job.
    #[arg(value_name = "JOB")]
    pub name: String,

    /// Namespace to look in [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Type of the job, if several jobs have its name.
    #[arg(short = 'T', long = "type", value_name = "TYPE")]
    pub job_type: Option<JobType>,

    /// Output format; `svg` is a picture of its sizes and its loss.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: StoryOutput,
}

/// The forms of a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StoryOutput {
    Text,
    Json,
    Svg,
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
    /// Stop its pods, and keep the job for later.
    Suspend(JobVerbArgs),
    /// Resume a suspended job; pods that have succeeded do not run again.
    Resume(JobVerbArgs),
    /// Restart all of its pods.
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
    /// List queues, with the number of pod groups in each.
    List(QueueListArgs),
    /// Show the shares, usage and members of a queue.
    Get(QueueGetArgs),
    /// Create a queue.
    Create(QueueCreateArgs),
    /// Open a queue for new jobs, with the child queues that were closed with it.
    Open(QueueStateArgs),
    /// Close a queue and its child queues for new jobs; jobs in it continue.
    Close(QueueStateArgs),
    /// Move workers of elastic jobs together, so that jobs start that find enough room only in parts.
    Defragment(QueueDefragmentArgs),
    /// Delete a queue that has no child queues.
    Delete(QueueDeleteArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub struct QueueListArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Watch for changes until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,

    /// Output format; `wide` adds the shares.
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

    /// Show its row, and watch for changes until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,

    /// Output format.
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

    /// Share relative to sibling queues, from 1 to 65535.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=65_535))]
    pub weight: i32,

    /// Parent queue [default: root].
    #[arg(long, value_name = "NAME")]
    pub parent: Option<String>,

    /// Upper limit, as in `cpu=8,memory=32Gi,nvidia.com/gpu=4`.
    #[arg(long, value_name = "AMOUNTS", value_parser = parse_amounts)]
    pub capability: Option<Amounts>,

    /// How many of its jobs run at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub max_running_jobs: Option<i32>,

    /// How long its jobs run at least before others preempt them, as in `10m`.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub min_runtime: Option<Duration>,

    /// How long its jobs wait at least before it reclaims its deserved share for them, as in `30s`.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub reclaim_delay: Option<Duration>,

    /// Deserved share; usage beyond it can be reclaimed.
    #[arg(long, value_name = "AMOUNTS", value_parser = parse_amounts)]
    pub deserved: Option<Amounts>,

    /// Amount reserved for it even while it is idle.
    #[arg(long, value_name = "AMOUNTS", value_parser = parse_amounts)]
    pub guarantee: Option<Amounts>,

    /// Whether other queues may reclaim usage beyond its share [default: true].
    #[arg(long, value_name = "BOOL", hide_possible_values = true)]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub reclaimable: Option<bool>,

    /// Queues with a higher priority go first.
    #[arg(long, value_name = "N")]
    pub priority: Option<i32>,

    /// `fifo` starts jobs strictly in order, `traverse` lets jobs that fit go ahead [default: traverse].
    #[arg(long, value_name = "HOW")]
    pub dequeue_strategy: Option<DequeueStrategy>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct QueueDefragmentArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Queue whose jobs wait [default: all queues].
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// Only show which workers would move, and for which jobs.
    #[arg(long)]
    pub dry_run: bool,
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

    /// Ignore a queue that does not exist.
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
            return Err(format!("`{name}` is given twice"));
        }
    }
    Ok(Amounts(amounts))
}

pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error: ronde_api::DurationError| error.to_string())?;
    if time.is_negative() { Err("must not be negative".to_owned()) } else { Ok(time) }
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
        check("cpu=4,cpu=5", Err("`cpu` is given twice"));
        assert!(parse_amounts("cpu=many").unwrap_err().starts_with("`cpu=many`: "));
    }

    #[test]
    fn times_have_a_unit_and_are_not_in_the_past() {
        assert_eq!(parse_time("90s"), Ok(Duration::from_seconds(90)));
        assert_eq!(parse_time("-1s"), Err("must not be negative".to_owned()));
        assert!(parse_time("5").unwrap_err().contains("5s"));
    }
}
