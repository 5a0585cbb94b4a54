//! The command line of `ronde run` and `horovodrun`: every flag of the original, and a few of our own. Parsing only.
//!
//! [`words`] first turns what `argparse` accepts into what `clap` does; [`parameters`] is what flags and the
//! configuration file say to the engine.

pub mod config;
pub mod parameters;
mod words;

use std::path::PathBuf;

use clap::{ArgAction, Args as ClapArgs, CommandFactory as _, FromArgMatches as _, Parser};

use self::parameters::Parameters;

/// How the ranks of a job end up as an exit code.
const EXIT_CODES: &str = "\
Exit codes:
  0    every rank ended with 0
  2    the input needs a change: arguments, hosts, a configuration file
  3    environment error: machine, host or network
  130  ended by Ctrl-C (143: by SIGTERM)
  that of the first rank that failed otherwise; 128 and the number if a signal ended it";

/// Start the ranks of a training job, on one machine or many, and stop them together.
#[derive(Debug, Clone, Parser)]
#[command(after_help = EXIT_CODES, disable_version_flag = true, max_term_width = 120)]
pub struct Arguments {
    /// Show the version.
    #[arg(short = 'v', long)]
    pub version: bool,

    /// Number of ranks; of an elastic job, the number needed to start (also -np).
    #[arg(long, value_name = "N", value_parser = count)]
    pub num_proc: Option<usize>,

    /// Show which features are built in (also -cb).
    #[arg(long)]
    pub check_build: bool,

    /// Accepted: nothing is cached.
    #[arg(long)]
    pub disable_cache: bool,

    /// Seconds to wait for all ranks to start [default: $HOROVOD_START_TIMEOUT, or 30].
    #[arg(long, value_name = "SECONDS", value_parser = count)]
    pub start_timeout: Option<usize>,

    /// Network interfaces that ranks may use, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub network_interfaces: Vec<String>,

    /// Network interface that ranks may use. May be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub network_interface: Vec<String>,

    /// Also write the output of ranks to DIR/rank.N/stdout and DIR/rank.N/stderr.
    #[arg(long, value_name = "DIR")]
    pub output_filename: Option<PathBuf>,

    /// Print more about what happens.
    #[arg(long)]
    pub verbose: bool,

    /// YAML file with parameters; flags take precedence.
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,

    /// Write how the job ended to a JSON file.
    #[arg(long, value_name = "FILE", hide = true)]
    pub report: Option<PathBuf>,

    /// End the job when stdin is closed.
    #[arg(long, hide = true)]
    pub until_stdin_ends: bool,

    /// Show the arguments as JSON, as `horovod.runner.launch.parse_args` reads them.
    #[arg(long, hide = true)]
    pub show_arguments: bool,

    #[command(flatten)]
    pub hosts: HostArgs,
    #[command(flatten)]
    pub elastic: ElasticArgs,
    #[command(flatten)]
    pub remote: RemoteArgs,
    #[command(flatten)]
    pub tuning: TuningArgs,
    #[command(flatten)]
    pub autotune: AutotuneArgs,
    #[command(flatten)]
    pub watching: WatchingArgs,
    #[command(flatten)]
    pub library: LibraryArgs,
    #[command(flatten)]
    pub logging: LoggingArgs,

    /// The program and its arguments.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Hosts")]
#[group(id = "host_source", multiple = false)]
pub struct HostArgs {
    /// Hosts with the number of ranks each takes, as in `node1:4,node2:4` [default: this machine].
    #[arg(short = 'H', long, value_name = "HOSTS")]
    pub hosts: Option<String>,

    /// File with a line `node1 slots=4` for each host (also -hostfile).
    #[arg(long, value_name = "FILE")]
    pub hostfile: Option<PathBuf>,

    /// Program that prints the current hosts, one `host:slots` per line; makes the job elastic.
    #[arg(long, value_name = "PROGRAM")]
    pub host_discovery_script: Option<String>,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Ranks that come and go")]
pub struct ElasticArgs {
    /// Minimum number of ranks; with fewer the job waits [default: as --num-proc].
    #[arg(long, visible_alias = "min-num-proc", value_name = "N", value_parser = count)]
    pub min_np: Option<usize>,

    /// Maximum number of ranks [default: as many as there are slots].
    #[arg(long, visible_alias = "max-num-proc", value_name = "N", value_parser = count)]
    pub max_np: Option<usize>,

    /// Slots of hosts that the script prints without a number.
    #[arg(long, value_name = "N", value_parser = count)]
    pub slots_per_host: Option<usize>,

    /// Seconds to wait for enough hosts [default: $HOROVOD_ELASTIC_TIMEOUT, or 600].
    #[arg(long, value_name = "SECONDS", value_parser = count)]
    pub elastic_timeout: Option<usize>,

    /// Number of times the ring may be formed again before the job fails [default: no limit].
    #[arg(long, value_name = "N", value_parser = count)]
    pub reset_limit: Option<usize>,

    /// Seconds for which a host that failed is not used: the first time, and at most.
    #[arg(long, value_names = ["MIN", "MAX"], num_args = 2, value_parser = count)]
    pub blacklist_cooldown_range: Option<Vec<usize>>,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Other machines")]
pub struct RemoteArgs {
    /// Port of ssh on all hosts.
    #[arg(short = 'p', long, value_name = "PORT")]
    pub ssh_port: Option<u16>,

    /// File with the private key for ssh.
    #[arg(short = 'i', long, value_name = "FILE")]
    pub ssh_identity_file: Option<PathBuf>,

    /// Command to use instead of ssh; it gets the host (at its end, or in place of {host}) and a shell command line.
    #[arg(long, value_name = "COMMAND")]
    pub rsh: Option<String>,

    /// Accepted for compatibility.
    #[arg(long)]
    pub gloo: bool,

    /// Accepted: mpirun is not needed.
    #[arg(long, conflicts_with = "gloo")]
    pub mpi: bool,

    /// Accepted: jsrun is not needed.
    #[arg(long, conflicts_with_all = ["gloo", "mpi"])]
    pub jsrun: bool,

    /// Accepted: there is no mpirun to pass it to.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub mpi_args: Option<String>,

    /// Accepted: ranks are not bound to processors.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub binding_args: Option<String>,

    /// Keep NCCL off InfiniBand.
    #[arg(long)]
    pub tcp: bool,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Tuning")]
pub struct TuningArgs {
    /// Megabytes of tensors to fuse into one message; 0 sends each alone [default: 128].
    #[arg(long, value_name = "MB", value_parser = number)]
    pub fusion_threshold_mb: Option<i64>,

    /// Milliseconds to wait for more tensors.
    #[arg(long, value_name = "MS", value_parser = real)]
    pub cycle_time_ms: Option<f64>,

    /// Tensors whose negotiation is cached; 0 caches none [default: 1024].
    #[arg(long, value_name = "N", value_parser = number)]
    pub cache_capacity: Option<i64>,

    /// Accepted: the algorithm is chosen by size and topology.
    #[arg(long, overrides_with = "no_hierarchical_allreduce")]
    pub hierarchical_allreduce: bool,
    #[arg(long, hide = true, overrides_with = "hierarchical_allreduce")]
    pub no_hierarchical_allreduce: bool,

    /// Accepted: the algorithm is chosen by size and topology.
    #[arg(long, overrides_with = "no_hierarchical_allgather")]
    pub hierarchical_allgather: bool,
    #[arg(long, hide = true, overrides_with = "hierarchical_allgather")]
    pub no_hierarchical_allgather: bool,

    /// Accepted: the algorithm is chosen by size and topology.
    #[arg(long, overrides_with = "no_torus_allreduce")]
    pub torus_allreduce: bool,
    #[arg(long, hide = true, overrides_with = "torus_allreduce")]
    pub no_torus_allreduce: bool,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Tuning by itself")]
pub struct AutotuneArgs {
    /// Tune parameters while the job runs.
    #[arg(long, overrides_with = "no_autotune")]
    pub autotune: bool,
    /// Do not.
    #[arg(long, overrides_with = "autotune")]
    pub no_autotune: bool,

    /// File for the tuning log.
    #[arg(long, value_name = "FILE")]
    pub autotune_log_file: Option<String>,

    /// Samples to discard first.
    #[arg(long, value_name = "N", value_parser = number)]
    pub autotune_warmup_samples: Option<i64>,

    /// Steps in a sample.
    #[arg(long, value_name = "N", value_parser = number)]
    pub autotune_steps_per_sample: Option<i64>,

    /// Maximum number of samples.
    #[arg(long, value_name = "N", value_parser = number)]
    pub autotune_bayes_opt_max_samples: Option<i64>,

    /// Noise of samples, from 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = real)]
    pub autotune_gaussian_process_noise: Option<f64>,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Timeline and stalls")]
pub struct WatchingArgs {
    /// File for a timeline of all operations, in Chrome's format.
    #[arg(long, value_name = "FILE")]
    pub timeline_filename: Option<String>,

    /// Mark every cycle of the engine in it.
    #[arg(long, overrides_with = "no_timeline_mark_cycles")]
    pub timeline_mark_cycles: bool,
    #[arg(long, hide = true, overrides_with = "timeline_mark_cycles")]
    pub no_timeline_mark_cycles: bool,

    /// Do not check for stalled ranks.
    #[arg(long, overrides_with = "stall_check")]
    pub no_stall_check: bool,
    #[arg(long, hide = true, overrides_with = "no_stall_check")]
    pub stall_check: bool,

    /// Seconds of waiting until a warning [default: 60].
    #[arg(long, value_name = "SECONDS", value_parser = number)]
    pub stall_check_warning_time_seconds: Option<i64>,

    /// Seconds of waiting until the job ends; 0: never [default: 0].
    #[arg(long, value_name = "SECONDS", value_parser = number)]
    pub stall_check_shutdown_time_seconds: Option<i64>,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Library")]
pub struct LibraryArgs {
    /// Accepted: there are no MPI threads.
    #[arg(long, overrides_with = "no_mpi_threads_disable")]
    pub mpi_threads_disable: bool,
    #[arg(long, hide = true, overrides_with = "mpi_threads_disable")]
    pub no_mpi_threads_disable: bool,

    /// Passed on to ranks: number of NCCL streams.
    #[arg(long, value_name = "N", value_parser = number)]
    pub num_nccl_streams: Option<i64>,

    /// Passed on to ranks: CPU of the engine's thread.
    #[arg(long, value_name = "N", value_parser = number)]
    pub thread_affinity: Option<i64>,

    /// Seconds that ranks wait for each other to start [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = number)]
    pub gloo_timeout_seconds: Option<i64>,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Output and logs")]
pub struct LoggingArgs {
    /// Log level of the engine.
    #[arg(long, value_name = "LEVEL", ignore_case = true)]
    #[arg(value_parser = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"])]
    pub log_level: Option<String>,

    /// Put a timestamp before each log message.
    #[arg(long, overrides_with_all = ["log_without_timestamp", "log_hide_timestamp", "no_log_hide_timestamp"])]
    pub log_with_timestamp: bool,
    /// Without it.
    #[arg(long, overrides_with_all = ["log_with_timestamp", "log_hide_timestamp", "no_log_hide_timestamp"])]
    pub log_without_timestamp: bool,
    #[arg(long, hide = true, overrides_with_all = ["log_with_timestamp", "log_without_timestamp", "no_log_hide_timestamp"])]
    pub log_hide_timestamp: bool,
    #[arg(long, hide = true, overrides_with_all = ["log_with_timestamp", "log_without_timestamp", "log_hide_timestamp"])]
    pub no_log_hide_timestamp: bool,

    /// Put a timestamp before each line of a rank (also -prefix-timestamp).
    #[arg(long, action = ArgAction::SetTrue)]
    pub prefix_output_with_timestamp: bool,
}

impl HostArgs {
    /// No hosts were named in any way.
    pub fn is_silent(&self) -> bool {
        self.hosts.is_none() && self.hostfile.is_none() && self.host_discovery_script.is_none()
    }
}

impl Arguments {
    /// Reads the words after the command's name.
    pub fn read(name: &str, words: &[String]) -> Result<Self, clap::Error> {
        let command = Self::command().bin_name(name);
        let words = words::canonical(&command, words);
        let matches = command.try_get_matches_from(std::iter::once(name.to_owned()).chain(words))?;
        Self::from_arg_matches(&matches)
    }

    /// Ranks may come and go.
    pub fn is_elastic(&self) -> bool {
        self.hosts.host_discovery_script.is_some() || self.elastic.min_np.is_some()
    }

    /// What is wrong with the numbers of ranks, if anything is.
    pub fn fault(&self) -> Option<String> {
        let (np, min, max) = (self.num_proc, self.elastic.min_np, self.elastic.max_np);
        let is_more = |one: Option<usize>, other: Option<usize>| one.zip(other).is_some_and(|(one, other)| one > other);
        let shown = |number: Option<usize>| number.unwrap_or_default();
        if is_more(min, max) {
            Some(format!("--min-np {} is more than --max-np {}", shown(min), shown(max)))
        } else if is_more(np, max) {
            Some(format!("-np {} is more than --max-np {}", shown(np), shown(max)))
        } else if is_more(min, np) {
            Some(format!("-np {} is less than --min-np {}", shown(np), shown(min)))
        } else {
            None
        }
    }

    pub fn interfaces(&self) -> Vec<&str> {
        let all = self.network_interfaces.iter().chain(&self.network_interface);
        all.map(|name| name.trim()).filter(|name| !name.is_empty()).collect()
    }

    /// What the flags say to the engine; nothing where they say nothing.
    pub fn parameters(&self) -> Parameters {
        let Self { tuning, autotune, watching, library, logging, .. } = self;
        Parameters {
            controller: None,
            fusion_threshold_mb: tuning.fusion_threshold_mb,
            cycle_time_ms: tuning.cycle_time_ms,
            cache_capacity: tuning.cache_capacity,
            hierarchical_allreduce: choice(tuning.hierarchical_allreduce, tuning.no_hierarchical_allreduce),
            hierarchical_allgather: choice(tuning.hierarchical_allgather, tuning.no_hierarchical_allgather),
            torus_allreduce: choice(tuning.torus_allreduce, tuning.no_torus_allreduce),
            autotune: choice(autotune.autotune, autotune.no_autotune),
            autotune_log_file: autotune.autotune_log_file.clone(),
            autotune_warmup_samples: autotune.autotune_warmup_samples,
            autotune_steps_per_sample: autotune.autotune_steps_per_sample,
            autotune_bayes_opt_max_samples: autotune.autotune_bayes_opt_max_samples,
            autotune_gaussian_process_noise: autotune.autotune_gaussian_process_noise,
            timeline_filename: watching.timeline_filename.clone(),
            timeline_mark_cycles: choice(watching.timeline_mark_cycles, watching.no_timeline_mark_cycles),
            no_stall_check: choice(watching.no_stall_check, watching.stall_check),
            stall_check_warning_time_seconds: watching.stall_check_warning_time_seconds,
            stall_check_shutdown_time_seconds: watching.stall_check_shutdown_time_seconds,
            mpi_threads_disable: choice(library.mpi_threads_disable, library.no_mpi_threads_disable),
            num_nccl_streams: library.num_nccl_streams,
            thread_affinity: library.thread_affinity,
            gloo_timeout_seconds: library.gloo_timeout_seconds,
            log_level: logging.log_level.as_ref().map(|level| level.to_uppercase()),
            log_with_timestamp: choice(
                logging.log_with_timestamp || logging.no_log_hide_timestamp,
                logging.log_without_timestamp || logging.log_hide_timestamp,
            ),
        }
    }

    /// One line for each flag that means something else here than in the original.
    pub fn notices(&self) -> Vec<&'static str> {
        let remote = &self.remote;
        let said = [
            (remote.mpi, "--mpi: ignored; Ronde starts and connects the ranks itself"),
            (remote.jsrun, "--jsrun: ignored; Ronde starts and connects the ranks itself"),
            (remote.mpi_args.is_some(), "--mpi-args: ignored; there is no mpirun to pass it to"),
            (remote.binding_args.is_some(), "--binding-args: ignored; ranks are not bound to processors"),
            (self.library.mpi_threads_disable, "--mpi-threads-disable: ignored; there are no MPI threads"),
        ];
        said.into_iter().filter(|(is_given, _)| *is_given).map(|(_, text)| text).collect()
    }
}

/// A pair of flags of which the last one counts.
fn choice(yes: bool, no: bool) -> Option<bool> {
    (yes || no).then_some(yes)
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("not an integer of at least 1".to_owned()),
    }
}

fn number(text: &str) -> Result<i64, String> {
    text.parse().ok().filter(|number| *number >= 0).ok_or_else(|| "not a whole number, or a negative one".to_owned())
}

fn real(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "not a number, or a negative one".to_owned())
}

#[cfg(test)]
mod tests;
