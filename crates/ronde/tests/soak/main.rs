//! Chaos on a real control plane with simulated nodes: a stream of jobs, while operators, API server, etcd and nodes are
//! killed, and the network between operators and API server is cut.
//!
//! `make soak-cluster` provides the cluster and names its folder in `RONDE_SOAK_CLUSTER`. Two operators work there, each
//! through a way of its own to the API server. All the while nothing may be booked twice and no gang may stay in part. At
//! the end every job has ended as its policies say, no pod is without its job, the audit log shows no pod that two operators
//! wanted on different nodes, and nothing is left of the jobs when they are deleted. It prints its seed; `RONDE_CHAOS_SEED` and
//! `RONDE_CHAOS_SECONDS` change it and its length.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod audit;
mod cluster;
#[path = "../chaos/dice.rs"]
mod dice;
mod faults;
mod jobs;
mod network;
mod operators;
mod verdict;
mod watcher;

use std::{
    str::FromStr,
    time::{Duration, Instant},
};

use ronde_sim::skip;

use crate::{cluster::Cluster, dice::Dice, faults::Faults, jobs::Jobs, operators::Operators, watcher::Watcher};

const SEED: u64 = 1;
const SECONDS: u64 = 60;
/// The longest pause between two deeds.
const PAUSE_MAX_MS: u64 = 3000;
/// One deed in so many is a fault; the others are about jobs.
const DEEDS_PER_FAULT: u64 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn after_chaos_every_job_has_ended_as_its_policies_say() {
    let Some(folder) = text("RONDE_SOAK_CLUSTER") else {
        return skip("there is no cluster to be disturbed (`make soak-cluster` provides one and runs this test)");
    };
    let (seed, seconds) = (setting("RONDE_CHAOS_SEED", SEED), setting("RONDE_CHAOS_SECONDS", SECONDS));
    eprintln!("chaos: RONDE_CHAOS_SEED={seed} RONDE_CHAOS_SECONDS={seconds}");
    let cluster = Cluster::in_folder(folder.into()).await;
    let mut operators = Operators::start(&cluster).await;
    let (mut jobs, mut faults, mut dice) = (Jobs::begin(&cluster).await, Faults::default(), Dice::new(seed));
    let watcher = Watcher::start(&cluster);

    // 1. Chaos.
    let begun = now();
    while begun.elapsed() < Duration::from_secs(seconds) {
        let deed = match dice.below(DEEDS_PER_FAULT) {
            0 => faults.one(&cluster, &mut operators, &mut dice).await,
            _ => jobs.one(&cluster, &mut dice).await,
        };
        let news = operators.revive();
        for what in news.into_iter().chain([deed]) {
            eprintln!("{:>8.3} {what}", begun.elapsed().as_secs_f64());
        }
        tokio::time::sleep(Duration::from_millis(dice.below(PAUSE_MAX_MS))).await;
    }
    Faults::end(&operators);
    eprintln!("{:>8.3} peace", begun.elapsed().as_secs_f64());

    // 2. Every job ends, with nothing booked twice and no gang in part.
    verdict::wait_for_ends(&cluster, &jobs, &mut operators).await;
    eprintln!("{:>8.3} all jobs have ended: {}; {}", begun.elapsed().as_secs_f64(), jobs.summary(), faults.summary());
    eprintln!("{}", watcher.verdict().await);
    eprintln!("{}", audit::verdict(&cluster.audit_log()));

    // 3. Nothing is left of them.
    verdict::delete_all(&cluster).await;
    operators.stop().await;
    eprintln!("{:>8.3} nothing is left", begun.elapsed().as_secs_f64());
}

fn setting<T: FromStr>(name: &str, default: T) -> T {
    text(name).and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[expect(clippy::disallowed_methods, reason = "these variables are this test's own")]
fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn now() -> Instant {
    Instant::now()
}
