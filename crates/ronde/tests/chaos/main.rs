//! Kills whatever there is, again and again, while objects come and go; then the world has to match the API.
//!
//! Killed with SIGKILL are the daemon (also while it starts), supervisors, and processes of containers; and now and then
//! the data directory is deleted. Never is it anything but this test's own instance, found by its data directory. Where it
//! may be, that is a small disk, which is filled and relieved meanwhile. At the end every container that the API calls
//! running is a living process and the other way round, Jobs have counted right, gangs have come to their end whole,
//! also those that were preempted again and again, no attempt has run twice, pods that ask the API have never been answered more than they may know, and `ronde down`
//! leaves nothing behind. It prints its seed; `RONDE_CHAOS_SEED` and `RONDE_CHAOS_SECONDS` change it and
//! its length (`make soak`).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod askers;
mod deeds;
mod dice;
mod instance;
mod leftovers;
mod lost_data;
mod storm;
mod verdict;

use std::{
    str::FromStr,
    time::{Duration, Instant},
};

use crate::{deeds::Deeds, dice::Dice, instance::Instance, leftovers::Leftovers};

const SEED: u64 = 1;
const SECONDS: u64 = 15;
/// The longest pause between two deeds: some come upon each other, some find a machine at rest.
const PAUSE_MAX_MS: u64 = 250;

#[tokio::test]
async fn after_chaos_the_world_matches_the_api_and_nothing_is_left_over() {
    let (seed, seconds) = (setting("RONDE_CHAOS_SEED", SEED), setting("RONDE_CHAOS_SECONDS", SECONDS));
    eprintln!("chaos: RONDE_CHAOS_SEED={seed} RONDE_CHAOS_SECONDS={seconds}");
    let mut instance = Instance::new().await;
    let mut dice = Dice::new(seed);
    let mut deeds = Deeds::begin(&instance).await;

    // 1. Chaos.
    let begun = now();
    while begun.elapsed() < Duration::from_secs(seconds) {
        let deed = deeds.one(&mut instance, &mut dice).await;
        eprintln!("{:>7.3} {deed}", begun.elapsed().as_secs_f64());
        tokio::time::sleep(Duration::from_millis(dice.below(PAUSE_MAX_MS))).await;
    }
    eprintln!("{:>7.3} peace", begun.elapsed().as_secs_f64());

    // 2. Everything comes to rest as the API says.
    verdict::wait_for_peace(&instance, &deeds).await;
    eprintln!("{:>7.3} at rest: {}", begun.elapsed().as_secs_f64(), deeds.summary());

    // 3. Nothing is left over.
    let names = Leftovers::names(&instance);
    instance.run(&["down"]);
    assert_eq!(Leftovers::find(&instance, &names), Leftovers::default());
}

fn setting<T: FromStr>(name: &str, default: T) -> T {
    #[expect(clippy::disallowed_methods, reason = "these two variables are this test's own")]
    let value = std::env::var(name);
    value.ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn now() -> Instant {
    Instant::now()
}
