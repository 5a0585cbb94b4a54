//! Benchmarks of Ronde beside its peers. Each prints a table with ratios; numbers in the docs come from here.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock and the machine")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the result; the rest is progress")]

mod apiserver;
mod cluster;
mod collective;
mod elastic;
mod flows;
mod images;
mod memory;
mod node;
mod scheduler;
mod table;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Measures Ronde side by side with its peers.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The API server beside kube-apiserver with etcd, both durable, over TLS.
    Apiserver {
        /// The ronde program to measure.
        #[arg(long)]
        ronde: PathBuf,
        /// The script that starts the real control plane; without it there is nothing beside ours.
        #[arg(long)]
        kubernetes: Option<PathBuf>,
        /// Rounds of each measurement; the median counts.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// Allreduce among processes of this machine, beside Open MPI.
    Collective(collective::Options),
    /// One rank of the above.
    #[command(hide = true)]
    CollectiveRank(collective::RankArgs),
    /// Jobs from the first request until all pods have nodes, on a real API server, beside a bare loop and other schedulers.
    Cluster(cluster::Options),
    /// Elastic jobs: how long a training stands still when ranks die, come and go.
    Elastic(elastic::Options),
    /// Flows of many jobs and many CronJobs: time, requests and memory per job as they grow.
    Flows(flows::Options),
    /// Images beside containerd: pulled from one registry, unpacked, and run by pods.
    Images {
        /// The ronde program to measure.
        #[arg(long)]
        ronde: PathBuf,
        /// The script that starts the real control plane with a node.
        #[arg(long)]
        kubelet: PathBuf,
    },
    /// What an operator keeps in memory for each pod and node.
    Memory(memory::Options),
    /// The node beside kubelet with containerd: starts, ends, memory, exec and logs of pods.
    Node {
        /// The ronde program to measure.
        #[arg(long)]
        ronde: PathBuf,
        /// The script that starts the real control plane with a node.
        #[arg(long)]
        kubelet: PathBuf,
    },
    /// The scheduler's decision alone, for growing clusters.
    Scheduler {
        /// Rounds of each size; the median counts.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Args::parse().what {
        What::Apiserver { ronde, kubernetes, rounds } => apiserver::run(&ronde, kubernetes.as_deref(), rounds).await,
        What::Collective(options) => collective::run(&options),
        What::CollectiveRank(args) => collective::run_rank(&args),
        What::Cluster(options) => cluster::run(&options).await,
        What::Elastic(options) => elastic::run(&options),
        What::Flows(options) => flows::run(&options).await,
        What::Images { ronde, kubelet } => images::run(&ronde, &kubelet).await,
        What::Memory(options) => memory::run(&options).await,
        What::Node { ronde, kubelet } => node::run(&ronde, &kubelet).await,
        What::Scheduler { rounds } => scheduler::run(rounds),
    }
}
