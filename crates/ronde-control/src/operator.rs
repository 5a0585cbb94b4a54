//! Batch work on a cluster that is there already: what `ronde operator` runs, the same as on one machine.
//!
//! Installs our kinds, then runs the controllers and the scheduler, one process at a time for the whole cluster. One that
//! has lost the lease is cut off in the middle of what it does, which every loop survives, before the next one begins.

use kube::Client;
use ronde_runtime::{
    lease::Election,
    runner::{Clock, Runner},
};
use tokio_util::sync::CancellationToken;

use crate::{
    batch::{self, Surroundings},
    elastic::pod::AgentSettings,
    install,
    jobflow::probe::PodDialer,
    scheduling::Scheduler,
    ssh_keys::KeySource,
};

/// Where operators agree on who is at work: namespace and name.
pub const LEASE: (&str, &str) = ("kube-system", "ronde-operator");
/// Who has it on a machine that is its own cluster and runs all this by itself, for good.
pub const MACHINE: &str = "ronde up";

/// How an operator is to run.
#[derive(Clone)]
pub struct Options {
    pub client: Client,
    pub clock: Clock,
    pub keys: KeySource,
    /// Where the program comes from that runs in the pods of training jobs.
    pub agent: AgentSettings,
    pub scheduler: Scheduler,
    /// Tells this process from all others.
    pub identity: String,
}

/// What a person who watches the operator may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorEvent<'a> {
    /// Another one is at work.
    Waits { holder: &'a str },
    /// It is at work.
    Works,
}

/// Why an operator ended.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error("cannot ask for the lease `{}/{}`", LEASE.0, LEASE.1)]
    Lease { source: Box<kube::Error> },
    #[error("cannot install the custom resource definitions")]
    Install { source: Box<kube::Error> },
    #[error("`{MACHINE}` already runs the controllers of this cluster")]
    Machine,
    #[error("another operator has taken over the lease `{}/{}`", LEASE.0, LEASE.1)]
    Lost,
}

/// Runs until `stop`, once no other operator does.
///
/// # Errors
/// If the API refuses what the operator cannot do without, or the lease is lost.
pub async fn run(
    options: Options,
    stop: CancellationToken,
    tell: impl Fn(OperatorEvent<'_>),
) -> Result<(), OperatorError> {
    let mut election = Election::new(options.client.clone(), options.clock.clone(), LEASE, options.identity.clone());
    let waits_for = |holder: &str| {
        let is_operator = holder != MACHINE;
        if is_operator {
            tell(OperatorEvent::Waits { holder });
        }
        is_operator
    };
    let Some(won) = stop.run_until_cancelled(election.win(waits_for)).await else { return Ok(()) };
    if !won.map_err(|source| OperatorError::Lease { source: Box::new(source) })? {
        return Err(OperatorError::Machine);
    }
    let ended = tokio::select! {
        ended = work(&options, &stop, tell) => ended,
        () = election.keep() => Err(OperatorError::Lost),
    };
    election.release().await;
    ended
}

async fn work(
    options: &Options,
    stop: &CancellationToken,
    tell: impl Fn(OperatorEvent<'_>),
) -> Result<(), OperatorError> {
    let Some(runner) = stop.run_until_cancelled(runner(options)).await else { return Ok(()) };
    let runner = runner.map_err(|source| OperatorError::Install { source: Box::new(source) })?;
    tell(OperatorEvent::Works);
    runner.run(stop.clone()).await;
    Ok(())
}

/// Keeps operators away from a machine that runs its controllers itself; waits for one that may still be at work.
///
/// # Errors
/// If the lease cannot be taken.
pub async fn keep_away(client: &Client, clock: &Clock) -> Result<(), kube::Error> {
    let waits_for = |holder: &str| {
        tracing::warn!(holder, "an operator may still be at work here; waiting until it has ended for sure");
        true
    };
    machine(client, clock).win(waits_for).await.map(drop)
}

/// Lets operators work on a machine that no longer runs the controllers itself.
pub async fn let_in(client: &Client, clock: &Clock) {
    machine(client, clock).release().await;
}

fn machine(client: &Client, clock: &Clock) -> Election {
    Election::new(client.clone(), clock.clone(), LEASE, MACHINE.to_owned()).for_good()
}

/// Lists what an operator runs, and makes sure that our kinds are there.
///
/// # Errors
/// If they cannot be made.
pub async fn runner(options: &Options) -> Result<Runner, kube::Error> {
    install::ensure(&options.client).await?;
    let mut runner = Runner::new(options.client.clone(), options.clock.clone());
    // The operator is a pod among others, or on a machine that reaches them.
    let dialer = PodDialer::direct();
    let surroundings = Surroundings { keys: options.keys.clone(), agent: options.agent.clone(), dialer };
    batch::add(&mut runner, surroundings, options.scheduler.clone());
    Ok(runner)
}
