//! The controllers that only a machine without a Kubernetes of its own needs, one folder per kind.
//!
//! A cluster has them in its controller manager; `ronde up` starts them with [`runner`], beside the batch controllers
//! of `ronde-control`. [`admission`] hands the rules of our kinds to the API server of one machine. What a controller decides
//! is in its `plan.rs` (or the file of its kind), the rest in `mod.rs`.
//!
//! Inside: each folder is a controller, with what it decides in `plan.rs` and the rest in `mod.rs`; `lib.rs` starts
//! them all; `admission/` hands the rules of our kinds to the API server of one machine.

pub mod admission;
pub mod deployment;
pub mod disruption;
pub mod endpoints;
pub mod job;
pub mod nodelifecycle;
pub mod podgc;
pub mod replicaset;
pub mod statefulset;
pub mod tainteviction;
pub mod volumeclaims;

use kube::Client;
use ronde_control::{
    batch::{self, Surroundings},
    elastic::pod::AgentSettings,
    install,
    jobflow::probe::PodDialer,
    operator,
    scheduling::Scheduler,
    ssh_keys::KeySource,
};
use ronde_runtime::{
    client::{Overseer, oversee},
    runner::{Clock, Runner},
    telemetry::Telemetry,
};

use self::{
    disruption::{Disruption, stale::StaleMarks},
    endpoints::EndpointsController,
    nodelifecycle::NodeLifecycle,
    podgc::PodGc,
    tainteviction::TaintEviction,
    volumeclaims::VolumeClaims,
};

/// How the controllers of a machine are to run.
#[derive(Clone)]
pub struct Options {
    pub client: Client,
    pub clock: Clock,
    pub volumes: VolumeClaims,
    /// Where the keys of jobs come from.
    pub keys: KeySource,
    /// Where the program comes from that runs in the pods of training jobs.
    pub agent: AgentSettings,
    /// How the addresses of pods are reached.
    pub dialer: PodDialer,
    pub scheduler: Scheduler,
    pub telemetry: Telemetry,
}

/// Adds the controllers of a bare machine to a runner, and makes sure that our kinds and a class for claims are there,
/// and that no operator does the same.
///
/// # Errors
/// If they cannot be made.
pub async fn runner(options: Options) -> Result<Runner, kube::Error> {
    operator::keep_away(&options.client, &options.clock).await?;
    install::ensure(&options.client).await?;
    volumeclaims::ensure_class(&options.client).await?;
    let client = oversee(options.client, Overseer { telemetry: options.telemetry.clone(), term: None });
    let mut runner = Runner::new(client, options.clock).told_to(options.telemetry);
    runner
        .add(EndpointsController)
        .add(NodeLifecycle::default())
        .add(TaintEviction::default())
        .add(PodGc::default())
        .add(Disruption)
        .add(StaleMarks)
        .add(options.volumes);
    let surroundings = Surroundings { keys: options.keys, agent: options.agent, dialer: options.dialer };
    batch::add(&mut runner, surroundings, options.scheduler);
    Ok(runner)
}
