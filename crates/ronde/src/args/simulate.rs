//! The command line of `ronde simulate`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use ronde_simulate::Span;

use super::ClusterArgs;

#[derive(Debug, Clone, ClapArgs)]
pub struct SimulateArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Nodes, as in `1000x8gpu` or `gpu-a=4x8gpu+64cpu+512Gi` [default: those of the cluster]. May be repeated.
    #[arg(long, value_name = "NODES", help_heading = "Cluster")]
    pub nodes: Vec<String>,

    /// Nodes, queues and jobs from manifests, or nodes from a trace; not from the context.
    #[arg(short, long = "filename", value_name = "FILE", help_heading = "Cluster")]
    pub files: Vec<PathBuf>,

    /// Queue, as in `team-a:weight=3,capability.gpu=16`. May be repeated.
    #[arg(long = "queue", value_name = "QUEUE", help_heading = "Cluster")]
    pub queues: Vec<String>,

    /// What happens to a node, as in `lose node-3 at 2h for 30m`, `reclaim`, `drain`, or `add 2x8gpu at 1h`. May be repeated.
    #[arg(long = "fault", value_name = "SENTENCE", help_heading = "Cluster")]
    pub faults: Vec<String>,

    /// Let each node fail once in this time on average.
    #[arg(long, value_name = "TIME", help_heading = "Cluster")]
    pub mtbf: Option<Span>,

    /// How long a node is away that has failed like that.
    #[arg(long, value_name = "TIME", default_value = "1h", help_heading = "Cluster")]
    pub repair: Span,

    /// Jobs from a table (CSV), a list (YAML), or a trace of Philly, Helios or Alibaba [default: what the cluster has].
    #[arg(long, value_name = "FILE", conflicts_with = "generate", help_heading = "Work")]
    pub jobs: Option<PathBuf>,

    /// Make up so many jobs.
    #[arg(long, value_name = "N", help_heading = "Work")]
    pub generate: Option<usize>,

    /// Decides everything that is left to chance.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Work")]
    pub seed: u64,

    /// The time in which generated jobs arrive.
    #[arg(long, value_name = "TIME", default_value = "1d", help_heading = "Work")]
    pub over: Span,

    /// Which part of the cluster generated jobs ask for, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 80, help_heading = "Work")]
    pub load: u32,

    /// Run time of jobs that declare none; without it, such a job runs until the end.
    #[arg(long, value_name = "TIME", help_heading = "Work")]
    pub run_time: Option<Span>,

    /// How often jobs that say nothing save what they have done; without it, a broken gang starts over.
    #[arg(long, value_name = "TIME", help_heading = "Work")]
    pub checkpoint: Option<Span>,

    /// Compare with `add 2 nodes like gpu-a`, `add 4x8gpu`, `remove 2 nodes like gpu-a`, `weight team-a=3`,
    /// `queue team-a:capability.gpu=16`, `elastic=auto`, `preemption=off` or `reclaim=off`. May be repeated.
    #[arg(long, value_name = "CHANGE")]
    pub what_if: Vec<String>,

    /// Stop after this time.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Span>,

    /// How long a pod that is evicted still takes room.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub grace: Span,

    /// Let the scheduler decide at most once in this time.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub pace: Span,

    /// Draw use and jobs over time (SVG).
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,

    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: SimulateOutput,
}

/// What to print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SimulateOutput {
    #[default]
    Table,
    Json,
    /// Every move, a line each, before the table.
    Moves,
}
