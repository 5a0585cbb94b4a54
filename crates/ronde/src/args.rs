//! The command line: one type per verb. Parsing only; the verbs are in the files of the same name.

mod agent;
mod cron;
mod doctor;
mod image;
mod install;
mod simulate;
mod submit;
mod training;
mod work;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use clap::{Arg, Args as ClapArgs, Command, Parser, Subcommand, ValueEnum};
use ronde_control::scheduling::Scheduler;
use ronde_text::quantity::Quantity;

pub use self::{
    agent::{AgentArgs, AgentVerb, RshArgs},
    cron::{
        CronArgs, CronTfjobArgs, CronVerb, FlowArgs, FlowVerb, KindCreateArgs, KindDeleteArgs, KindGetArgs,
        KindListArgs, SwitchArgs,
    },
    doctor::DoctorArgs,
    image::{ImageArgs, ImageOutput, ImageVerb},
    install::{InstallArgs, UninstallArgs},
    simulate::{SimulateArgs, SimulateOutput},
    submit::{
        BatchArgs, CommonArgs, ElasticArg, EtjobArgs, LauncherArgs, ManifestOutput, PytorchjobArgs, SubmitArgs,
        SubmitHow, SubmitJob, SyncMode, TfjobArgs, VolcanojobArgs,
    },
    training::{
        AttachArgs, CompletionArgs, GpuMode, PruneArgs, ScaleArgs, ScaleinArgs, ScaleinJob, ScaleoutArgs, ScaleoutJob,
        TopArgs, TopJobArgs, TopNodeArgs, TopOutput, TopWhat, VersionArgs, WhoamiArgs,
    },
    work::{
        Amounts, CascadeArg, DeleteArgs, JobArgs, JobVerb, JobVerbArgs, ListArgs, LogsArgs, QueueArgs, QueueCreateArgs,
        QueueDefragmentArgs, QueueDeleteArgs, QueueGetArgs, QueueListArgs, QueueStateArgs, QueueVerb, StoryArgs,
        StoryOutput, WaitArgs,
    },
};
use crate::{arena::JobType, failure::EXIT_CODES};

/// Distributed training on one machine or any Kubernetes. Begin with: demo, up, submit, list, get, logs.
#[derive(Debug, Parser)]
#[command(name = "ronde", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Args {
    /// Print only results and errors.
    #[arg(short, long, global = true, display_order = 900)]
    pub quiet: bool,

    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start the ranks of a training job, on this machine or over ssh; the same as horovodrun.
    #[command(disable_help_flag = true)]
    Run(RunArgs),
    /// Watch an elastic training on this machine: workers join, leave and are killed.
    Demo(DemoArgs),
    /// Make this machine a Kubernetes cluster and select its context.
    Up(UpArgs),
    /// Submit a training job.
    Submit(Box<SubmitArgs>),
    /// Show objects, or everything about one job.
    Get(GetArgs),
    /// Print the logs of a pod, or of the pods of a job.
    #[command(alias = "log")]
    Logs(LogsArgs),
    /// List jobs, and why they wait or have failed.
    #[command(alias = "ls")]
    List(ListArgs),
    /// Tell the story of a job: what it waited for, its sizes and why, its losses, its end.
    Story(StoryArgs),
    /// Add workers to an elastic job while it trains.
    Scaleout(ScaleoutArgs),
    /// Remove workers from an elastic job while it trains.
    Scalein(ScaleinArgs),
    /// Stop the pods of a job, and keep the job for later.
    Suspend(JobVerbArgs),
    /// Resume a suspended job.
    Resume(JobVerbArgs),
    /// Open a shell or run a command in a pod of a job.
    #[command(visible_alias = "exec")]
    Attach(AttachArgs),
    /// Show GPU, CPU and memory by job and node.
    Top(TopArgs),
    /// Delete jobs, or objects by kind, name, label or manifest.
    #[command(alias = "del")]
    Delete(DeleteArgs),
    /// Delete jobs that finished some time ago.
    Prune(PruneArgs),
    /// Suspend, resume or restart a job.
    Job(JobArgs),
    /// Show, create, open, close or delete queues.
    Queue(QueueArgs),
    /// Show, create, suspend, resume or delete flows: jobs that start one after another.
    Flow(FlowArgs),
    /// Show, create, suspend, resume or delete jobs that start on a schedule.
    Cron(Box<CronArgs>),
    /// See what a cluster would do with its work, on virtual time.
    Simulate(Box<SimulateArgs>),
    /// List, load, save or remove the images of this machine.
    Image(ImageArgs),
    /// Create or update objects from manifests, by server-side apply.
    Apply(ApplyArgs),
    /// Show whether the cluster of this machine is running, where, and what it holds.
    Status(StatusArgs),
    /// Look for what keeps jobs from running: rights, definitions, operators, images, clocks, webhooks.
    Doctor(DoctorArgs),
    /// Stop the cluster of this machine with all its pods, and remove its context from the kubeconfig.
    Down(DownArgs),
    /// Save all objects and keys of this machine's cluster to a file, even while it is running.
    Backup(BackupArgs),
    /// Create a data directory from a backup.
    Restore(RestoreArgs),
    /// Run the batch controllers and scheduler against an existing cluster.
    Operator(OperatorArgs),
    /// Install or upgrade a bundled chart, through Helm.
    Install(InstallArgs),
    /// Uninstall a release, through Helm.
    Uninstall(UninstallArgs),
    /// Start ranks on this host for a launcher that knows the job's secret.
    Agent(AgentArgs),
    /// Run a command on a host through its agent, as ssh would.
    #[command(hide = true)]
    Rsh(RshArgs),
    /// Print a shell completion script.
    Completion(CompletionArgs),
    /// Show the version.
    #[command(hide = true)]
    Version(VersionArgs),
    /// Show which user the cluster sees.
    #[command(hide = true)]
    Whoami(WhoamiArgs),
}

/// Lets options take `-3`, so that they say themselves what is wrong with it.
pub fn with_negative_numbers(command: Command) -> Command {
    let takes = |arg: &Arg| arg.get_action().takes_values() && !arg.is_positional();
    let command = command.mut_args(|arg| if takes(&arg) { arg.allow_negative_numbers(true) } else { arg });
    command.mut_subcommands(with_negative_numbers)
}

/// The launcher reads its own command line: it is horovodrun's.
#[derive(Debug, Clone, ClapArgs)]
pub struct RunArgs {
    /// Options of the launcher, then the command; `ronde run --help` explains them.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,

    /// This program was called as `horovodrun`.
    #[arg(skip)]
    pub is_horovodrun: bool,
}

/// The verbs that are arena's alone, whose failures have its exit code.
pub const TRAINING_VERBS: [&str; 9] =
    ["submit", "scaleout", "scalein", "suspend", "resume", "attach", "exec", "top", "prune"];

impl Verb {
    /// Whether it is one of [`TRAINING_VERBS`].
    pub fn is_of_training(&self) -> bool {
        matches!(
            self,
            Self::Submit(_)
                | Self::Scaleout(_)
                | Self::Scalein(_)
                | Self::Suspend(_)
                | Self::Resume(_)
                | Self::Attach(_)
                | Self::Top(_)
                | Self::Prune(_)
        )
    }
}

/// It takes less than a minute, has a cluster of its own, and leaves nothing behind but the picture.
#[derive(Debug, Clone, ClapArgs)]
pub struct DemoArgs {
    /// Python with NumPy and the package `ronde` [default: python3].
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,

    /// Where to write the picture of the training.
    #[arg(long, value_name = "FILE", default_value = "demo.svg")]
    pub picture: PathBuf,
}

/// Where an instance keeps its data.
#[derive(Debug, Clone, ClapArgs)]
pub struct DataDirArgs {
    /// Directory of the instance [default: ~/.local/share/ronde, for root /var/lib/ronde].
    #[arg(long, value_name = "DIR", env = "RONDE_DATA_DIR", hide_env_values = true)]
    pub data_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct UpArgs {
    #[command(flatten)]
    pub data_dir: DataDirArgs,

    /// Kubeconfig that gets the context `ronde` [default: as kubectl chooses].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Loopback address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443", value_parser = parse_listen)]
    pub listen: SocketAddr,

    #[command(flatten)]
    pub node: NodeArgs,

    #[command(flatten)]
    pub placing: PlacingArgs,

    /// Run in the background once it is ready; the log is DIR/ronde.log.
    #[arg(short, long)]
    pub detach: bool,

    /// This is the background process of `--detach`.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub detached: bool,
}

/// How pods find their nodes.
#[derive(Debug, Clone, ClapArgs)]
pub struct PlacingArgs {
    /// Node label that names a part of the network. May be repeated, closest part first.
    #[arg(long = "topology-label", value_name = "LABEL")]
    pub topology_labels: Vec<String>,

    /// Pack pods onto as few nodes as possible even if they request no devices; pods with devices always are.
    #[arg(long)]
    pub pack: bool,
}

impl PlacingArgs {
    /// Returns a scheduler that places as it is said here.
    pub fn tell(&self, mut scheduler: Scheduler) -> Scheduler {
        scheduler.tier_labels.clone_from(&self.topology_labels);
        scheduler.policy.packs = self.pack;
        scheduler
    }
}

/// How the machine appears as nodes.
#[derive(Debug, Clone, ClapArgs)]
pub struct NodeArgs {
    /// Number of nodes to divide the machine into; 0 serves the bare API, without scheduler, controllers and pods.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=NODES_MAX))]
    #[arg(env = "RONDE_NODES", hide_env_values = true)]
    pub nodes: u32,

    /// CPUs of each node, as in `4` or `500m` [default: an equal share of the machine].
    #[arg(long, value_name = "CPUS", value_parser = parse_quantity)]
    pub cpus: Option<Quantity>,

    /// Memory of each node, as in `8Gi` [default: an equal share of the machine].
    #[arg(long, value_name = "MEMORY", value_parser = parse_quantity)]
    pub memory: Option<Quantity>,

    /// GPUs of each node, declared as `nvidia.com/gpu` [default: an equal share of those that are there].
    #[arg(long, value_name = "GPUS")]
    pub gpus: Option<u64>,

    /// Processes and threads that each pod may have [default: 16384, or a quarter of what the machine allows].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub pod_pids_limit: Option<u64>,

    /// How pods are isolated from this machine.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub isolation: IsolationArg,

    /// What the image names of pods mean.
    #[arg(long, value_name = "WHICH", default_value = "auto")]
    pub images: ImagesArg,

    #[command(flatten)]
    pub registries: RegistriesArgs,
}

/// How registries are reached.
#[derive(Debug, Clone, ClapArgs)]
pub struct RegistriesArgs {
    /// Folder with mirrors and certificates of registries, as `REGISTRY/hosts.toml` [default: `~/.config/ronde/registries`
    /// unless root, and `/etc/ronde/registries`].
    #[arg(long, value_name = "DIR")]
    pub registries: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImagesArg {
    /// The image if it is stored here or a registry has it, else this machine's own files.
    Auto,
    /// This machine's own files.
    Host,
    /// The image, or the pod waits for it.
    Pull,
}

/// More nodes than a machine can play with.
const NODES_MAX: i64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IsolationArg {
    /// As much as the machine allows; what is missing is reported.
    Auto,
    /// All of it, or `ronde up` refuses.
    Full,
    /// None: pods are plain processes.
    None,
}

fn parse_quantity(text: &str) -> Result<Quantity, String> {
    Quantity::parse(text).map_err(|error| error.to_string())
}

#[derive(Debug, Clone, ClapArgs)]
pub struct DownArgs {
    #[command(flatten)]
    pub data_dir: DataDirArgs,

    /// Delete the data directory too, with every object in it.
    #[arg(long)]
    pub delete_data: bool,

    /// Stop the instance of this name, whether or not its data directory is still there; see `ronde status --all`.
    #[arg(long, value_name = "NAME")]
    pub instance: Option<String>,

    /// Stop all your instances on this machine, and remove what is left of those whose data directory is gone.
    #[arg(long, conflicts_with_all = ["instance", "delete_data"])]
    pub all: bool,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct BackupArgs {
    #[command(flatten)]
    pub data_dir: DataDirArgs,

    /// File to write; `-` writes to stdout. It holds secrets, and is for you alone.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct RestoreArgs {
    #[command(flatten)]
    pub data_dir: DataDirArgs,

    /// Backup to read; `-` reads stdin. The data directory must be empty or not there.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct StatusArgs {
    #[command(flatten)]
    pub data_dir: DataDirArgs,

    /// List all your instances on this machine, including those whose data directory is gone.
    #[arg(long)]
    pub all: bool,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: StatusOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusOutput {
    Text,
    Json,
}

/// Which cluster to talk to.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct ClusterArgs {
    /// Kubeconfig to read [default: as kubectl chooses].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context to use instead of the selected one.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Manifest, or a directory of them (.yaml, .yml, .json); `-` reads stdin. May be repeated.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Namespace of objects that name none [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Take over fields that another manager owns.
    #[arg(long)]
    pub force_conflicts: bool,

    /// Validate on the server, and store nothing.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Default, ClapArgs)]
pub struct GetArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Kinds, as in `pods`, `deploy,svc` or `jobs.batch`; `KIND/NAME`; or the name of a job.
    #[arg(value_name = "KIND|JOB")]
    pub kind: String,

    /// Names of objects; or more of `KIND/NAME`.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    /// Namespace to look in [default: the context's].
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,

    /// Look in all namespaces.
    #[arg(short = 'A', long, conflicts_with = "names")]
    pub all_namespaces: bool,

    /// Only objects with these labels, as in `app=web,tier!=cache`.
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    pub selector: Option<String>,

    /// Watch for changes until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,

    /// Take the argument as the name of a job of this type.
    #[arg(short = 'T', long = "type", value_name = "TYPE", conflicts_with_all = ["names", "all_namespaces", "selector"])]
    pub job_type: Option<JobType>,

    /// Also show the events of a training job and its pods.
    #[arg(short, long)]
    pub events: bool,

    /// Also show the GPUs of the pods of a training job.
    #[arg(short, long)]
    pub gpus: bool,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: GetOutput,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum GetOutput {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct OperatorArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Scheduler name whose pods to place. May be repeated.
    #[arg(long = "scheduler-name", value_name = "NAME", default_values = ["volcano", "ronde"])]
    pub scheduler_names: Vec<String>,

    #[command(flatten)]
    pub placing: PlacingArgs,

    /// Image that has `ronde`, for the pods of training jobs [default: their own image].
    #[arg(long, value_name = "IMAGE")]
    pub agent_image: Option<String>,

    /// Path of `ronde` in that image.
    #[arg(long, value_name = "PATH", default_value = "/usr/local/bin/ronde")]
    pub agent_program: String,

    /// Install the custom resource definitions and users' roles, or only check that the definitions are there.
    #[arg(long, value_name = "HOW", default_value = "install")]
    pub definitions: DefinitionsArg,

    /// Address to serve `/livez`, `/readyz` and `/metrics` on, over plain HTTP [default: none].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,

    /// Seconds after which another operator takes over from one that is not heard of.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub lease_duration: u64,

    /// Format of log lines.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// Configuration file (YAML): these options in camelCase, as in `agentImage`; options given here win.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DefinitionsArg {
    // Needs the right to write them.
    #[default]
    Install,
    // Waits until they are served: the chart installs them.
    Check,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    // One object a line.
    Json,
}

/// The API has one administrator token and a certificate for loopback names, so it is not for the network.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let address = match text.strip_prefix("localhost:") {
        Some(port) => {
            let port = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
        }
        None => text.parse().map_err(|_| "not an address like 127.0.0.1:6443".to_owned())?,
    };
    if address.ip().is_loopback() { Ok(address) } else { Err("not a loopback address".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    fn check(text: &str, expected: Result<&str, &str>) {
        let parsed = parse_listen(text).map(|address| address.to_string());
        assert_eq!(parsed.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn only_loopback_addresses_are_listened_on() {
        check("127.0.0.1:6443", Ok("127.0.0.1:6443"));
        check("127.8.8.8:0", Ok("127.8.8.8:0"));
        check("[::1]:6443", Ok("[::1]:6443"));
        check("localhost:7000", Ok("127.0.0.1:7000"));
        check("localhost:http", Err("`http` is not a port"));
        check("0.0.0.0:6443", Err("not a loopback address"));
        check("10.0.0.1:6443", Err("not a loopback address"));
        check("6443", Err("not an address like 127.0.0.1:6443"));
    }
}
