//! The command line of arena's other verbs: scale, attach, prune, top, and the small ones.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use clap_complete::Shell;
use ronde_api::Duration;

use super::{
    ClusterArgs,
    submit::parse_pair,
    work::{WaitArgs, parse_time},
};
use crate::arena::JobType;

#[derive(Debug, Clone, ClapArgs)]
#[command(disable_help_subcommand = true)]
pub struct ScaleoutArgs {
    #[command(subcommand)]
    pub job: ScaleoutJob,
}

/// The type of the job.
#[derive(Debug, Clone, Subcommand)]
pub enum ScaleoutJob {
    /// Add workers to an elastic training job: all of them within the timeout, or none.
    #[command(visible_alias = "et", args_override_self = true)]
    Etjob(ScaleArgs),
}

#[derive(Debug, Clone, ClapArgs)]
#[command(disable_help_subcommand = true)]
pub struct ScaleinArgs {
    #[command(subcommand)]
    pub job: ScaleinJob,
}

/// The type of the job.
#[derive(Debug, Clone, Subcommand)]
pub enum ScaleinJob {
    /// Remove workers from an elastic training job, at its next commit.
    #[command(visible_alias = "et", args_override_self = true)]
    Etjob(ScaleinEtjobArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub struct ScaleArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of the job.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Namespace of the job [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Number of workers.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub count: i32,

    /// Undo the operation if it takes longer, as in `10m` or `90s`.
    #[arg(short, long, value_name = "TIME", default_value = "1m", value_parser = parse_time)]
    pub timeout: Duration,

    /// Wait until it is done.
    #[arg(long, visible_alias = "follow")]
    pub wait: bool,

    /// Has no effect: the list of hosts needs no script.
    #[arg(long, value_name = "FILE", hide = true)]
    pub script: Option<String>,

    /// Has no effect without a script.
    #[arg(short, long = "env", value_name = "NAME=VALUE", value_parser = parse_pair, hide = true)]
    pub env: Vec<(String, String)>,

    /// Has no effect, as with arena.
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    pub retry: i32,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct ScaleinEtjobArgs {
    #[command(flatten)]
    pub scale: ScaleArgs,

    /// Worker to remove, instead of those with the highest indexes. May be repeated.
    #[arg(long = "pod", value_name = "POD")]
    pub pods: Vec<String>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct AttachArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of the job.
    #[arg(value_name = "JOB")]
    pub job: String,

    /// Namespace of the job [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Pod of the job [default: the launcher, or the first].
    #[arg(short, long, value_name = "POD")]
    pub instance: Option<String>,

    /// Container of the pod [default: the first].
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,

    /// Type of the job, if several jobs have its name.
    #[arg(short = 'T', long = "type", value_name = "TYPE")]
    pub job_type: Option<JobType>,

    /// Command to run [default: sh].
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub command: Vec<String>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct PruneArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Namespace to look in [default: the context's].
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,

    /// Look in all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Only jobs that ended longer ago, as in `24h`.
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    pub since: Duration,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(disable_help_subcommand = true)]
pub struct TopArgs {
    #[command(subcommand)]
    pub what: TopWhat,
}

/// What to look at.
#[derive(Debug, Clone, Subcommand)]
pub enum TopWhat {
    /// Show GPUs requested and allocated by job.
    Job(TopJobArgs),
    /// Show GPU, CPU and memory of nodes.
    Node(TopNodeArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub struct TopJobArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of one job.
    #[arg(value_name = "JOB")]
    pub job: Option<String>,

    /// Namespace to look in [default: the context's].
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,

    /// Look in all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Only jobs of this type.
    #[arg(short = 'T', long = "type", value_name = "TYPE")]
    pub job_type: Option<JobType>,

    /// Only this pod of the job.
    #[arg(short, long, value_name = "POD", requires = "job")]
    pub instance: Option<String>,

    /// Refresh every two seconds until Ctrl-C.
    #[arg(short, long)]
    pub refresh: bool,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "wide")]
    pub output: TopOutput,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct TopNodeArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Only these nodes.
    #[arg(value_name = "NODE")]
    pub nodes: Vec<String>,

    /// Also show the pods on each node.
    #[arg(short, long)]
    pub details: bool,

    /// Only nodes whose GPUs are used like this.
    #[arg(short = 'm', long, value_name = "HOW")]
    pub gpu_mode: Option<GpuMode>,

    /// Refresh every two seconds until Ctrl-C.
    #[arg(short, long)]
    pub refresh: bool,

    /// Has no effect: only the monitoring of the GPUs knows how busy they are.
    #[arg(long, hide = true)]
    pub metric: bool,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "wide")]
    pub output: TopOutput,
}

/// How the GPUs of a node are given to pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GpuMode {
    /// The node has none.
    #[value(alias = "n")]
    None,
    /// Each has one pod at a time.
    #[value(alias = "e")]
    Exclusive,
    /// By their connections; no node here does so.
    #[value(alias = "t")]
    Topology,
    /// Several pods share one; no node here does so.
    #[value(alias = "s")]
    Share,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TopOutput {
    Wide,
    Json,
    Yaml,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct CompletionArgs {
    /// The shell, as in `source <(ronde completion bash)`.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct VersionArgs {
    /// Only the number.
    #[arg(long)]
    pub short: bool,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct WhoamiArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

impl ScaleArgs {
    /// How to wait for the controller, which ends the operation by itself after the timeout.
    pub fn patience(&self) -> WaitArgs {
        let seconds = i64::try_from(self.timeout.to_std().as_secs()).unwrap_or(i64::MAX);
        WaitArgs { wait: true, timeout: Duration::from_seconds(seconds.saturating_add(GRACE_SECONDS)) }
    }
}

/// What a controller needs to end an operation that is over, beyond its timeout.
const GRACE_SECONDS: i64 = 60;
