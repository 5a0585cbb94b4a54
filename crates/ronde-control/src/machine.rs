//! The controllers of a machine that is its own cluster, started together.
//!
//! Called by `ronde up`, never on a real cluster, which has its own. Workloads are added by the caller.

use kube::Client;

use crate::{
    batch,
    disruption::Disruption,
    elastic::pod::AgentSettings,
    endpoints::EndpointsController,
    install,
    nodelifecycle::NodeLifecycle,
    operator,
    podgc::PodGc,
    runner::{Clock, Runner},
    scheduling::Scheduler,
    tainteviction::TaintEviction,
    vcjob::objects::KeySource,
    volumeclaims::{self, VolumeClaims},
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
    pub scheduler: Scheduler,
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
    let mut runner = Runner::new(options.client, options.clock);
    runner
        .add(EndpointsController)
        .add(NodeLifecycle::default())
        .add(TaintEviction::default())
        .add(PodGc::default())
        .add(Disruption)
        .add(options.volumes);
    batch::add(&mut runner, options.keys, options.agent, options.scheduler);
    Ok(runner)
}
