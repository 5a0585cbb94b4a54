//! The controllers of a machine that is its own cluster, started together.
//!
//! Called by `ronde up`, never on a real cluster, which has its own. Workloads are added by the caller.

use kube::Client;

use crate::{
    disruption::Disruption,
    endpoints::EndpointsController,
    nodelifecycle::NodeLifecycle,
    placement::Placement,
    podgc::PodGc,
    runner::{Clock, Runner},
    tainteviction::TaintEviction,
    volumeclaims::{self, VolumeClaims},
};

/// How the controllers of a machine are to run.
#[derive(Clone)]
pub struct Options {
    pub client: Client,
    pub clock: Clock,
    pub volumes: VolumeClaims,
}

/// Adds the controllers of a bare machine to a runner, and makes sure that claims have a class.
///
/// # Errors
/// If the class cannot be made.
pub async fn runner(options: Options) -> Result<Runner, kube::Error> {
    volumeclaims::ensure_class(&options.client).await?;
    let mut runner = Runner::new(options.client, options.clock);
    runner
        .add(EndpointsController)
        .add(Placement::default())
        .add(NodeLifecycle::default())
        .add(TaintEviction::default())
        .add(PodGc::default())
        .add(Disruption)
        .add(options.volumes);
    Ok(runner)
}
