//! The command line of `ronde submit`: what is common to all jobs, and what each type adds.
//!
//! Flags are arena's, also where another word would be better. Those that are written down in a job's ConfigMap derive
//! `Serialize`; the older spellings in camelCase are translated by [`crate::arena::arguments`] before this is read.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use k8s_openapi::api::core::v1::Toleration;
use ronde_api::Duration;
use serde::Serialize;

use super::{ClusterArgs, parse_quantity, work::parse_time};

#[derive(Debug, Clone, ClapArgs)]
#[command(disable_help_subcommand = true)]
pub struct SubmitArgs {
    #[command(subcommand)]
    pub job: SubmitJob,
}

/// The type of the job.
#[derive(Debug, Clone, Subcommand)]
pub enum SubmitJob {
    /// An elastic training job: a launcher, and workers that come and go while it trains.
    #[command(visible_alias = "et", args_override_self = true)]
    Etjob(EtjobArgs),
    /// A job that `mpirun` starts on its workers.
    #[command(visible_alias = "mpi", alias = "mj", args_override_self = true)]
    Mpijob(LauncherJobArgs),
    /// A job that `horovodrun` starts on a fixed number of workers.
    #[command(visible_alias = "horovod", alias = "hj", args_override_self = true)]
    Horovodjob(LauncherJobArgs),
    /// A job that `deepspeed` starts on its workers.
    #[command(visible_alias = "dp", alias = "deepspeed", args_override_self = true)]
    Deepspeedjob(LauncherJobArgs),
    /// A job of torch.distributed: a master and workers.
    #[command(visible_alias = "pytorch", alias = "py", args_override_self = true)]
    Pytorchjob(PytorchjobArgs),
    /// A job of TensorFlow: workers, and parameter servers, a chief or an evaluator if they are asked for.
    #[command(visible_alias = "tf", args_override_self = true)]
    Tfjob(TfjobArgs),
    /// A job of Volcano: tasks that start together.
    #[command(visible_alias = "vj", alias = "volcano", args_override_self = true)]
    Volcanojob(VolcanojobArgs),
}

/// What every type of job can have.
#[derive(Debug, Clone, Default, ClapArgs, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommonArgs {
    #[command(flatten)]
    #[serde(skip)]
    pub cluster: ClusterArgs,

    #[command(flatten)]
    #[serde(skip)]
    pub how: SubmitHow,

    /// Name of the job, at most 49 characters.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Namespace of the job [default: the context's].
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Image of the containers.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,

    /// When the image is pulled.
    #[arg(long, value_name = "WHEN", default_value = "Always", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub image_pull_policy: String,

    /// Secret to pull the image with. May be repeated.
    #[arg(long = "image-pull-secret", value_name = "NAME")]
    pub image_pull_secrets: Vec<String>,

    /// GPUs of each worker.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub gpus: u32,

    /// The job needs no GPUs; `${gpus}` in the command is then 1.
    #[arg(long)]
    pub cpu_only: bool,

    /// Other devices of each worker, as in `amd.com/gpu=1`. May be repeated.
    #[arg(long = "device", value_name = "NAME=N", value_parser = parse_pair)]
    pub devices: Vec<(String, String)>,

    /// Number of workers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: i32,

    /// CPUs of each pod, as in `2` or `500m`.
    #[arg(long, value_name = "CPUS", value_parser = parse_amount)]
    pub cpu: Option<String>,

    /// Memory of each pod, as in `8Gi`.
    #[arg(long, value_name = "MEMORY", value_parser = parse_amount)]
    pub memory: Option<String>,

    /// Size of /dev/shm; 0 keeps the default.
    #[arg(long, value_name = "SIZE", default_value = "2Gi", value_parser = parse_amount)]
    pub share_memory: String,

    /// Working directory of the command.
    #[arg(long, value_name = "DIR", default_value = "/root")]
    pub working_dir: String,

    /// Shell that runs the command.
    #[arg(long, value_name = "SHELL", default_value = "sh")]
    pub shell: String,

    /// Environment variable. May be repeated.
    #[arg(short, long = "env", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub env: Vec<(String, String)>,

    /// PersistentVolumeClaim, and where to mount it. May be repeated.
    #[arg(short, long = "data", value_name = "CLAIM:/PATH")]
    pub data: Vec<String>,

    /// Directory of the node, and where to mount it. May be repeated.
    #[arg(long = "data-dir", value_name = "/DIR[:/PATH]")]
    pub data_dirs: Vec<String>,

    /// Local file to copy into the containers, and where. May be repeated.
    #[arg(long = "config-file", value_name = "FILE[:/PATH]")]
    pub config_files: Vec<String>,

    /// Annotation of the job and its pods. May be repeated.
    #[arg(short, long = "annotation", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub annotations: Vec<(String, String)>,

    /// Label of the job and its pods. May be repeated.
    #[arg(short, long = "label", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub labels: Vec<(String, String)>,

    /// Node label that workers require. May be repeated.
    #[arg(long = "selector", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub selectors: Vec<(String, String)>,

    /// Taint to tolerate, as in `spot=true:NoSchedule,Equal`; or `all`. May be repeated.
    #[arg(long = "toleration", value_name = "TAINT", value_parser = parse_toleration)]
    pub tolerations: Vec<Toleration>,

    /// Priority class of the pods.
    #[arg(short, long, value_name = "CLASS")]
    pub priority: Option<String>,

    /// Start all pods or none. This is the default; an elastic job starts with its minimum of workers.
    #[arg(long)]
    pub gang: bool,

    /// Give each pod an RDMA device.
    #[arg(long)]
    pub rdma: bool,

    /// Scheduler of the pods.
    #[arg(long, alias = "scheduler-name", value_name = "NAME")]
    pub scheduler: Option<String>,

    /// Use the network of the node.
    #[arg(long = "hostNetwork", alias = "host-network")]
    pub host_network: bool,

    /// Use the IPC namespace of the node.
    #[arg(long = "hostIPC", alias = "host-ipc")]
    pub host_ipc: bool,

    /// Use the PID namespace of the node.
    #[arg(long = "hostPID", alias = "host-pid")]
    pub host_pid: bool,

    /// How often to restart a job that failed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retry: i32,

    /// How to fetch code into `code` in the working directory.
    #[arg(long, value_name = "HOW", requires = "sync_source")]
    pub sync_mode: Option<SyncMode>,

    /// Repository or module to fetch code from.
    #[arg(long, value_name = "URL", requires = "sync_mode")]
    pub sync_source: Option<String>,

    /// Image to fetch code with [default: the job's own, with git or rsync].
    #[arg(long, value_name = "IMAGE")]
    pub sync_image: Option<String>,

    /// Also run TensorBoard.
    #[arg(long)]
    pub tensorboard: bool,

    /// Image of TensorBoard [default: the job's own].
    #[arg(long, value_name = "IMAGE")]
    pub tensorboard_image: Option<String>,

    /// Log directory for TensorBoard.
    #[arg(long, value_name = "DIR", default_value = "/training_logs")]
    pub logdir: String,

    #[command(flatten)]
    #[serde(skip)]
    pub ignored: IgnoredArgs,

    /// Command to run, in quotes or after `--`.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Flags of arena for what is not here. They are taken, so that its commands work, and a line says that they do nothing.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct IgnoredArgs {
    /// Has no effect: there is no registry of models.
    #[arg(long, value_name = "NAME", hide = true)]
    pub model_name: Option<String>,

    /// Has no effect: there is no registry of models.
    #[arg(long, value_name = "URL", hide = true)]
    pub model_source: Option<String>,

    /// Has no effect: GPUs are given whatever they are connected to. Of mpijob.
    #[arg(long, hide = true)]
    pub gputopology: bool,

    /// Has no effect: the launcher has the mounts anyway. Of mpijob.
    #[arg(long, hide = true)]
    pub mounts_on_launcher: bool,

    /// Has no effect: workers are reached without ssh, or as their image's sshd wants it. Of horovodjob.
    #[arg(long, value_name = "PORT", hide = true)]
    pub ssh_port: Option<u16>,
}

impl IgnoredArgs {
    /// Returns what is to be said about them.
    pub fn notices(&self) -> Vec<&'static str> {
        let flags = [
            (self.model_name.is_some(), "`--model-name` has no effect: there is no registry of models here"),
            (self.model_source.is_some(), "`--model-source` has no effect: there is no registry of models here"),
            (self.gputopology, "`--gputopology` has no effect: GPUs are given whatever they are connected to"),
            (self.mounts_on_launcher, "`--mounts-on-launcher` has no effect: the launcher has the mounts anyway"),
            (self.ssh_port.is_some(), "`--ssh-port` has no effect: workers need no sshd"),
        ];
        flags.into_iter().filter_map(|(is_given, notice)| is_given.then_some(notice)).collect()
    }
}

/// What to do with the job that was described.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct SubmitHow {
    /// YAML file with flags by name, and `command`; flags on the command line win.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Print the manifests and create nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub output: ManifestOutput,

    /// Wait until the job runs.
    #[arg(long)]
    pub wait: bool,

    /// Wait, then follow the output until the job ends; fail if the job does.
    #[arg(long)]
    pub follow: bool,

    /// Stop waiting after this time; the job continues.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ManifestOutput {
    #[default]
    Yaml,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncMode {
    Git,
    Rsync,
}

/// What jobs with a launcher can have beside.
#[derive(Debug, Clone, Default, ClapArgs, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LauncherArgs {
    /// Node label that the launcher requires. May be repeated.
    #[arg(long = "launcher-selector", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub launcher_selectors: Vec<(String, String)>,

    /// Annotation of the launcher. May be repeated.
    #[arg(long = "launcher-annotation", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub launcher_annotations: Vec<(String, String)>,

    /// Annotation of the workers. May be repeated.
    #[arg(long = "worker-annotation", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub worker_annotations: Vec<(String, String)>,

    /// Whether to restart the whole job when it fails [default: Never].
    #[arg(long, value_name = "WHEN", value_parser = ["Never", "OnFailure"])]
    pub job_restart_policy: Option<String>,

    /// How often to restart it.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(i32).range(0..))]
    pub job_backoff_limit: i32,

    /// Which worker pods to delete when the job ends.
    #[arg(long, visible_alias = "clean-task-policy", value_name = "WHICH", default_value = "Running")]
    #[arg(value_parser = ["Running", "All", "None"])]
    pub clean_pod_policy: String,

    /// Secret with ssh keys, for images that use ssh; not needed otherwise.
    #[arg(long, value_name = "NAME")]
    pub ssh_secret: Option<String>,

    /// Ranks per worker [default: its number of GPUs, or 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub slots_per_worker: Option<i32>,

    /// Queue of the job [default: default].
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "default")]
    pub queue: Option<String>,
}

#[derive(Debug, Clone, Default, ClapArgs, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtjobArgs {
    #[command(flatten)]
    pub common: CommonArgs,

    #[command(flatten)]
    pub launcher: LauncherArgs,

    /// Maximum number of workers.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_workers: i32,

    /// Minimum number of workers to start and to keep running.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub min_workers: i32,

    /// `auto` lets the job grow into idle capacity, up to the maximum, and shrink again.
    #[arg(long, value_name = "HOW", default_value = "manual")]
    pub elastic: ElasticArg,

    /// Allow nodes that can be reclaimed.
    #[arg(long)]
    pub spot_instance: bool,

    /// Fail the job if it has not started after this many seconds; 0 waits forever.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub max_wait_time: u32,

    /// Which lost workers are replaced [default: Always].
    #[arg(long, value_name = "WHEN", value_parser = ["Always", "OnFailure", "ExitCode", "Never"])]
    pub worker_restart_policy: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ElasticArg {
    /// Only `scaleout` and `scalein` change its size.
    #[default]
    Manual,
    Auto,
}

/// A launcher and a fixed number of workers.
#[derive(Debug, Clone, Default, ClapArgs, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LauncherJobArgs {
    #[command(flatten)]
    pub common: CommonArgs,

    #[command(flatten)]
    pub launcher: LauncherArgs,
}

/// What jobs of Volcano can have beside.
#[derive(Debug, Clone, Default, ClapArgs, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchArgs {
    /// Queue of the job [default: default].
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,

    /// Delete the job this long after it ended [default: keep it].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub ttl_after_finished: Option<Duration>,
}

#[derive(Debug, Clone, Default, ClapArgs, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PytorchjobArgs {
    #[command(flatten)]
    pub common: CommonArgs,

    #[command(flatten)]
    pub batch: BatchArgs,

    /// Processes per pod for torchrun, `PET_NPROC_PER_NODE` [default: its number of GPUs, or 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nproc_per_node: Option<u32>,
}

#[derive(Debug, Clone, Default, ClapArgs, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TfjobArgs {
    #[command(flatten)]
    pub common: CommonArgs,

    #[command(flatten)]
    pub batch: BatchArgs,

    /// Number of parameter servers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub ps: i32,

    /// Also run a chief.
    #[arg(long)]
    pub chief: bool,

    /// Also run an evaluator.
    #[arg(long)]
    pub evaluator: bool,

    /// Image of the parameter servers [default: the job's].
    #[arg(long, value_name = "IMAGE")]
    pub ps_image: Option<String>,

    /// Image of the workers [default: the job's].
    #[arg(long, value_name = "IMAGE")]
    pub worker_image: Option<String>,

    /// CPUs of each parameter server [default: as the others].
    #[arg(long, value_name = "CPUS", value_parser = parse_amount)]
    pub ps_cpu: Option<String>,

    /// Memory of each parameter server [default: as the others].
    #[arg(long, value_name = "MEMORY", value_parser = parse_amount)]
    pub ps_memory: Option<String>,
}

#[derive(Debug, Clone, Default, ClapArgs, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolcanojobArgs {
    #[command(flatten)]
    pub common: CommonArgs,

    #[command(flatten)]
    pub batch: BatchArgs,

    /// Number of pods that must start together [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub min_available: Option<i32>,

    /// Name of the tasks; numbered if there are several images.
    #[arg(long, value_name = "NAME", default_value = "task")]
    pub task_name: String,

    /// Images, one task for each. May be repeated or a list [default: the job's image].
    #[arg(long, value_name = "IMAGES", value_delimiter = ',')]
    pub task_images: Vec<String>,

    /// Pods of each task.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..))]
    pub task_replicas: i32,

    /// CPUs of each pod of a task.
    #[arg(long, value_name = "CPUS", value_parser = parse_amount)]
    pub task_cpu: Option<String>,

    /// Memory of each pod of a task.
    #[arg(long, value_name = "MEMORY", value_parser = parse_amount)]
    pub task_memory: Option<String>,

    /// Container port of each pod of a task.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub task_port: Option<u16>,
}

/// Reads `NAME=VALUE`; the value may hold anything.
pub fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected `NAME=VALUE`".to_owned()),
    }
}

fn parse_amount(text: &str) -> Result<String, String> {
    parse_quantity(text).map(|_| text.to_owned())
}

/// Reads `key=value:effect,operator`, of which all but the key may be left out, or `all`.
fn parse_toleration(text: &str) -> Result<Toleration, String> {
    if text == "all" {
        return Ok(Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() });
    }
    let (taint, operator) = text.split_once(',').map_or((text, None), |(taint, operator)| (taint, Some(operator)));
    let (pair, effect) = taint.split_once(':').map_or((taint, None), |(pair, effect)| (pair, Some(effect)));
    let (key, value) = pair.split_once('=').map_or((pair, None), |(key, value)| (key, Some(value)));
    if key.is_empty() {
        return Err("names no taint".to_owned());
    }
    let operator = operator.unwrap_or(if value.is_some() { "Equal" } else { "Exists" });
    let check = |word: &str, words: &[&str]| {
        let list = || format!("`{word}` is not one of {}", words.join(", "));
        if words.contains(&word) { Ok(()) } else { Err(list()) }
    };
    check(operator, &["Equal", "Exists"])?;
    effect.map_or(Ok(()), |effect| check(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]))?;
    Ok(Toleration {
        key: Some(key.to_owned()),
        operator: Some(operator.to_owned()),
        value: value.filter(|_| operator == "Equal").map(str::to_owned),
        effect: effect.map(str::to_owned),
        toleration_seconds: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let shown = parse_toleration(text).map(|found| {
            let words = [found.key, found.operator, found.value, found.effect];
            words.into_iter().map(|word| word.unwrap_or_else(|| "-".to_owned())).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn tolerations_are_read_or_refused() {
        check("all", Ok("- Exists - -"));
        check("spot", Ok("spot Exists - -"));
        check("spot=true", Ok("spot Equal true -"));
        check("spot=true:NoSchedule", Ok("spot Equal true NoSchedule"));
        check("spot=true:NoSchedule,Exists", Ok("spot Exists - NoSchedule"));
        check("=true", Err("names no taint"));
        check("spot:Never", Err("`Never` is not one of NoSchedule, PreferNoSchedule, NoExecute"));
        check("spot,Like", Err("`Like` is not one of Equal, Exists"));
    }

    #[test]
    fn a_value_may_hold_anything() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(parse_pair("A=b=c,{\"d\": 'e'} "), pair("A", "b=c,{\"d\": 'e'} "));
        assert_eq!(parse_pair("A="), pair("A", ""));
        assert_eq!(parse_pair("A"), Err("expected `NAME=VALUE`".to_owned()));
        assert_eq!(parse_pair("=b"), Err("expected `NAME=VALUE`".to_owned()));
    }
}
