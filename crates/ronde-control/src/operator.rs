//! Batch work on a cluster that is there already: what `ronde operator` runs, the same as on one machine.
//!
//! Installs our kinds, then runs the controllers and the scheduler, one process at a time for the whole cluster.

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::{
    batch, install,
    lease::Election,
    runner::{Clock, Runner},
    scheduling::Scheduler,
    vcjob::objects::KeySource,
};

/// Where operators agree on who is at work: namespace and name.
pub const LEASE: (&str, &str) = ("kube-system", "ronde-operator");

/// How an operator is to run.
#[derive(Clone)]
pub struct Options {
    pub client: Client,
    pub clock: Clock,
    pub keys: KeySource,
    pub scheduler: Scheduler,
    /// Tells this process from all others.
    pub identity: String,
}

/// What a person who watches the operator may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News<'a> {
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
    #[error("cannot install our kinds")]
    Install { source: Box<kube::Error> },
    #[error("another operator has taken over the lease `{}/{}`", LEASE.0, LEASE.1)]
    Lost,
}

/// Runs until `stop`, once no other operator does.
///
/// # Errors
/// If the API refuses what the operator cannot do without, or the lease is lost.
pub async fn run(options: Options, stop: CancellationToken, tell: impl Fn(News<'_>)) -> Result<(), OperatorError> {
    let mut election = Election::new(options.client.clone(), options.clock.clone(), LEASE, options.identity.clone());
    let waits = |holder: &str| tell(News::Waits { holder });
    let Some(won) = stop.run_until_cancelled(election.win(waits)).await else { return Ok(()) };
    won.map_err(|source| OperatorError::Lease { source: Box::new(source) })?;
    let ended = work(options, &mut election, &stop, tell).await;
    election.release().await;
    ended
}

async fn work(
    options: Options,
    election: &mut Election,
    stop: &CancellationToken,
    tell: impl Fn(News<'_>),
) -> Result<(), OperatorError> {
    let runner = runner(&options).await.map_err(|source| OperatorError::Install { source: Box::new(source) })?;
    tell(News::Works);
    let inner = stop.child_token();
    let mut running = std::pin::pin!(runner.run(inner.clone()));
    tokio::select! {
        () = &mut running => Ok(()),
        () = election.keep() => {
            inner.cancel();
            running.await;
            Err(OperatorError::Lost)
        }
    }
}

/// Lists what an operator runs, and makes sure that our kinds are there.
///
/// # Errors
/// If they cannot be made.
pub async fn runner(options: &Options) -> Result<Runner, kube::Error> {
    install::ensure(&options.client).await?;
    let mut runner = Runner::new(options.client.clone(), options.clock.clone());
    batch::add(&mut runner, options.keys.clone(), options.scheduler.clone());
    Ok(runner)
}
