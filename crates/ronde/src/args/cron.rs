//! The command line of `ronde flow` and `ronde cron`: what starts jobs.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::{CascadeArg, ClusterArgs, GetOutput, TfjobArgs, WaitArgs};

#[derive(Debug, Clone, ClapArgs)]
#[command(disable_help_subcommand = true)]
pub struct FlowArgs {
    #[command(subcommand)]
    pub verb: FlowVerb,
}

/// What to do with flows.
#[derive(Debug, Clone, Subcommand)]
pub enum FlowVerb {
    /// List flows.
    #[command(visible_alias = "ls")]
    List(KindListArgs),
    /// Show flows by name.
    Get(KindGetArgs),
    /// Create flows, and the templates of their jobs, from manifests.
    Create(KindCreateArgs),
    /// Start no more jobs for now; those that run continue.
    Suspend(SwitchArgs),
    /// Start jobs again, those first whose turn came meanwhile.
    Resume(SwitchArgs),
    /// Delete flows with their jobs.
    #[command(alias = "del")]
    Delete(KindDeleteArgs),
}

#[derive(Debug, Clone, ClapArgs)]
#[command(disable_help_subcommand = true)]
pub struct CronArgs {
    #[command(subcommand)]
    pub verb: CronVerb,
}

/// What to do with jobs that start on a schedule.
#[derive(Debug, Clone, Subcommand)]
pub enum CronVerb {
    /// List CronJobs.
    #[command(visible_alias = "ls")]
    List(KindListArgs),
    /// Show CronJobs by name.
    Get(KindGetArgs),
    /// Create CronJobs from manifests.
    Create(KindCreateArgs),
    /// Create a CronJob that submits a job of TensorFlow.
    #[command(visible_alias = "tf", args_override_self = true)]
    Tfjob(Box<CronTfjobArgs>),
    /// Start no more jobs for now; those that run continue.
    Suspend(SwitchArgs),
    /// Start jobs again; if runs were due meanwhile, the last of them at once.
    Resume(SwitchArgs),
    /// Delete CronJobs with their jobs.
    #[command(alias = "del")]
    Delete(KindDeleteArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub struct KindListArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Namespace to look in [default: the context's].
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,

    /// Look in all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Watch for changes until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,

    /// Output format; `wide` adds why something does not start.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: GetOutput,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct KindGetArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Names of the objects.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    /// Namespace to look in [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Watch for changes until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,

    /// Output format; `wide` adds why something does not start.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: GetOutput,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct KindCreateArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Manifest, or a directory of them (.yaml, .yml, .json); `-` reads stdin. May be repeated.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Namespace of objects that name none [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct KindDeleteArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Names of the objects.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    /// Namespace to look in [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Ignore objects that do not exist.
    #[arg(long)]
    pub ignore_not_found: bool,

    /// How to delete the jobs that they started.
    #[arg(long, value_name = "HOW", default_value = "background")]
    pub cascade: CascadeArg,

    #[command(flatten)]
    pub wait: WaitArgs,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct SwitchArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Name of the object.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Namespace to look in [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct CronTfjobArgs {
    /// When to submit the job, as in `30 2 * * 1-5`, `@daily` or `@every 6h`.
    #[arg(long, value_name = "SCHEDULE")]
    pub schedule: String,

    /// Time zone of the schedule, as in `Europe/Berlin` [default: UTC].
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,

    /// What to do when a job is due and an earlier one still runs.
    #[arg(long, value_name = "POLICY", default_value = "Allow", value_parser = ["Allow", "Forbid", "Replace"])]
    pub concurrency_policy: String,

    /// Submit no jobs before it is resumed.
    #[arg(long)]
    pub suspend: bool,

    /// How late a job may be submitted, in seconds [default: any time].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(0..))]
    pub deadline: Option<i64>,

    /// How many jobs that ended are kept, complete and failed ones each.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(i32).range(0..))]
    pub history_limit: i32,

    #[command(flatten)]
    pub job: TfjobArgs,
}
