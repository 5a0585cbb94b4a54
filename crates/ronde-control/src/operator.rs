//! Batch work on a cluster that is there already: what `ronde operator` runs, the same as on one machine.
//!
//! Installs our kinds, then runs the controllers and the scheduler, one process at a time for the whole cluster. One that
//! has lost the lease is cut off in the middle of what it does, which every loop survives, before the next one begins; then
//! it stands by for its next turn, with nothing kept of the last.

use std::{sync::Arc, time::Duration};

use kube::Client;
use ronde_runtime::{
    causes::Causes,
    client::{Overseer, oversee},
    lease::{Election, Term},
    runner::{Clock, Runner},
    telemetry::{Telemetry, health::Role},
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    batch::{self, Surroundings},
    elastic::pod::AgentSettings,
    install::{self, Definitions},
    jobflow::probe::PodDialer,
    metrics::{ACTIVE, NO_LABELS, TERMS, of_controllers},
    scheduling::Scheduler,
    ssh_keys::KeySource,
    trim,
};

/// How long to wait before the definitions are looked at again, if the server cannot be asked now.
const INSTALL_PACE: Duration = Duration::from_secs(1);

/// Where operators agree on who is at work: namespace and name.
pub const LEASE: (&str, &str) = ("kube-system", "ronde-operator");
/// Who has it on a machine that is its own cluster and runs all this by itself, for good.
pub const MACHINE: &str = "ronde up";

/// Makes a client that sends nothing more when a term is over, as far below the controllers as it can see to that.
pub type Connect = Arc<dyn Fn(&Term) -> Result<Client, kube::Error> + Send + Sync>;

/// How an operator is to run.
#[derive(Clone)]
pub struct Options {
    /// Asks for the lease.
    pub client: Client,
    /// Makes the client of the controllers for one term.
    pub connect: Connect,
    pub telemetry: Telemetry,
    /// How long a lease is good without a renewal.
    pub lease_duration: Duration,
    pub clock: Clock,
    pub keys: KeySource,
    /// Where the program comes from that runs in the pods of training jobs.
    pub agent: AgentSettings,
    pub scheduler: Scheduler,
    pub definitions: Definitions,
    /// Tells this process from all others.
    pub identity: String,
}

/// What a person who watches the operator may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorEvent<'a> {
    /// Another one is at work.
    Waits { holder: &'a str },
    /// It would be at work if these kinds were there.
    Lacks { kinds: &'a [String] },
    /// It is at work.
    Works,
    /// It is no longer: another one may be.
    Lost,
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
}

/// Runs until `stop`, whenever no other operator does.
///
/// # Errors
/// If the API refuses what the operator cannot do without.
pub async fn run(
    options: Options,
    stop: CancellationToken,
    tell: impl Fn(OperatorEvent<'_>),
) -> Result<(), OperatorError> {
    let Telemetry { metrics, health } = &options.telemetry;
    let client = oversee(options.client.clone(), Overseer { telemetry: options.telemetry.clone(), term: None });
    let mut election =
        Election::new(client, options.clock.clone(), LEASE, options.identity.clone()).lasting(options.lease_duration);
    let waits_for = |holder: &str| {
        let is_operator = holder != MACHINE;
        if is_operator {
            health.set_role(Role::Standby { holder: holder.to_owned() });
            tell(OperatorEvent::Waits { holder });
        }
        is_operator
    };
    loop {
        // 1. wait for our turn
        metrics.set(&ACTIVE, NO_LABELS, 0);
        let Some(won) = stop.run_until_cancelled(election.win(waits_for)).await else { return Ok(()) };
        let won = won.map_err(|source| OperatorError::Lease { source: Box::new(source) })?;
        let Some(term) = won else { return Err(OperatorError::Machine) };
        metrics.set(&ACTIVE, NO_LABELS, 1);
        metrics.count(&TERMS, NO_LABELS);
        // 2. work for as long as it is
        let ended = tokio::select! {
            ended = work(&options, &term, &stop, &tell) => Some(ended),
            () = election.keep(&term) => None,
        };
        // 3. make way
        health.set_role(Role::Candidate);
        metrics.forget_gauges(of_controllers());
        match ended {
            Some(ended) => {
                election.release().await;
                return ended;
            }
            None => tell(OperatorEvent::Lost),
        }
    }
}

async fn work(
    options: &Options,
    term: &Term,
    stop: &CancellationToken,
    tell: impl Fn(OperatorEvent<'_>),
) -> Result<(), OperatorError> {
    let wrap = |source| OperatorError::Install { source: Box::new(source) };
    let overseer = Overseer { telemetry: options.telemetry.clone(), term: Some(term.clone()) };
    let client = oversee((options.connect)(term).map_err(wrap)?, overseer);
    // Until the runner says which kinds are to be listed, it waits for their definitions.
    let health = &options.telemetry.health;
    health.begin(["CustomResourceDefinition".to_owned()]);
    health.set_role(Role::Active);
    let waits_for = |kinds: &[String]| tell(OperatorEvent::Lacks { kinds });
    let Some(runner) = stop.run_until_cancelled(runner(options, client, waits_for)).await else { return Ok(()) };
    let runner = runner.map_err(wrap)?;
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
pub async fn runner(options: &Options, client: Client, waits_for: impl Fn(&[String])) -> Result<Runner, kube::Error> {
    while let Err(error) = install::prepare(&client, options.definitions, &waits_for).await {
        if !is_temporary(&error) {
            return Err(error);
        }
        tracing::warn!(error = %Causes(&error), "cannot look at the custom resource definitions; trying again");
        sleep(INSTALL_PACE).await;
    }
    let mut runner = Runner::new(client, options.clock.clone()).told_to(options.telemetry.clone());
    // The operator is a pod among others, or on a machine that reaches them.
    let dialer = PodDialer::direct();
    let surroundings = Surroundings { keys: options.keys.clone(), agent: options.agent.clone(), dialer };
    batch::add(&mut runner, surroundings, options.scheduler.clone());
    runner.trim(trim::pod).trim(trim::node);
    Ok(runner)
}

/// Tells whether a server that cannot do something now may do so soon. It has answered the question about the lease: a token
/// that it does not know now has run out, and will be renewed.
fn is_temporary(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || matches!(status.code, 401 | 429),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_passes_is_waited_for() {
        let is_waited_for =
            |code: u16| is_temporary(&kube::Error::Api(Status::failure("no", "").with_code(code).boxed()));
        let waited_for: Vec<u16> =
            [400, 401, 403, 404, 422, 429, 500, 503, 504].into_iter().filter(|code| is_waited_for(*code)).collect();
        assert_eq!(waited_for, [401, 429, 500, 503, 504]);
    }
}
