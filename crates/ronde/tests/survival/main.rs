//! Elastic trainings on several hosts, over every way to reach them, while everything is killed that can be.
//!
//! Killed with SIGKILL, at moments that a seed decides, are ranks, agents, sshd and its sessions, keepers, shells and
//! clients; hosts leave the list and come back. One worker that has the state is spared in each volley, another one in
//! the next: it must never be started again, and the training must end with the right loss and the right count of
//! samples. The launcher is killed apart: nothing may be left of it on any host. `RONDE_CHAOS_SECONDS` and
//! `RONDE_CHAOS_SEED` make it longer and different (`make soak-elastic`).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]
#![expect(clippy::print_stderr, reason = "seeds and deeds help to read a failure")]

#[path = "../chaos/dice.rs"]
mod dice;
mod fire;
mod hosts;
mod job;
#[path = "../agent/network.rs"]
mod network;
mod training;

use std::{
    env,
    str::FromStr,
    time::{Duration, Instant},
};

use crate::{
    dice::Dice,
    fire::Fire,
    hosts::{Hosts, Way},
    job::Job,
    training::{Kind, Training},
};

const SEED: u64 = 1;
const SECONDS: u64 = 3;
/// What is promised, and some for a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(2 + 23);
/// The longest life of a launcher that is to be killed: some are when their ranks train, some long before.
const LIFE_MAX_MS: u64 = 2500;

#[test]
fn a_training_by_a_command_survives() {
    survive(Way::Command, Kind::NumPy);
}

#[test]
fn a_training_over_ssh_survives() {
    survive(Way::Ssh, Kind::NumPy);
}

#[test]
fn a_training_through_agents_survives() {
    survive(Way::Agents, Kind::NumPy);
}

#[test]
fn no_sample_of_pytorch_is_lost() {
    // Its imports alone take seconds.
    if setting("RONDE_CHAOS_SECONDS").is_none_or(|seconds: u64| seconds < 60) {
        ronde_sim::skip("PyTorch takes too long for a short round: `make soak-elastic` has long ones");
        return;
    }
    [Way::Command, Way::Ssh, Way::Agents].into_iter().for_each(|way| survive(way, Kind::PyTorch));
}

#[test]
fn nothing_is_left_of_a_killed_launcher() {
    [Way::Command, Way::Ssh, Way::Agents].into_iter().for_each(perish);
}

/// Runs a training under fire to its end.
fn survive(way: Way, kind: Kind) {
    let (seed, seconds) = settings(way);
    let (Some(training), Some(mut hosts)) = (Training::new(kind, seconds), Hosts::new(way)) else { return };
    let mut job = Job::start(&hosts, &training);
    let mut fire = Fire::new(Dice::new(seed));
    let begun = now();
    while begun.elapsed() < Duration::from_secs(seconds) && !job.is_nearly_done() {
        fire.volley(&mut hosts, &mut job);
    }
    hosts.revive();
    training.enough();
    let (code, lines) = job.end();
    let said = lines.join("\n");
    assert_eq!(code, Some(0), "seed {seed}, {fire}\n{said}");
    assert!(!said.contains("starting over"), "the state was lost: seed {seed}, {fire}\n{said}");
    let result = training.check(&lines);
    let rings = lines.iter().filter(|line| line.starts_with("ronde: ring ")).count();
    eprintln!("{way:?} {kind:?}: seed {seed}, {:.0} s, {rings} rings, {fire}: {result}", begun.elapsed().as_secs_f64());
}

/// Kills launchers, some right after a process that watches over ranks; looks for what is left.
fn perish(way: Way) {
    let (seed, seconds) = settings(way);
    let Some(training) = Training::new(Kind::NumPy, 3600) else { return };
    let Some(mut hosts) = Hosts::new(way) else { return };
    let mut dice = Dice::new(seed);
    let (begun, mut rounds, mut slowest) = (now(), 0, Duration::ZERO);
    while rounds == 0 || begun.elapsed() < Duration::from_secs(seconds) {
        let job = Job::start(&hosts, &training);
        std::thread::sleep(Duration::from_millis(dice.below(LIFE_MAX_MS)));
        if dice.below(2) == 0 {
            fire::one_of_any(&hosts, &mut dice).into_iter().for_each(job::kill);
        }
        job.kill();
        let killed = now();
        ronde_sim::wait_until("nothing is left", GONE_WITHIN * 2, || {
            let left = hosts.leftovers();
            let is_late = killed.elapsed() >= GONE_WITHIN;
            assert!(!is_late || left.is_empty(), "seed {seed}, round {rounds}: left after {GONE_WITHIN:?}: {left:#?}");
            left.is_empty().then_some(())
        });
        slowest = slowest.max(killed.elapsed());
        hosts.revive();
        rounds += 1;
    }
    eprintln!("{way:?}: seed {seed}, {rounds} launchers killed, nothing was left after {slowest:.1?} at most");
}

fn settings(way: Way) -> (u64, u64) {
    let seed = setting("RONDE_CHAOS_SEED").unwrap_or(SEED);
    let seconds = setting("RONDE_CHAOS_SECONDS").unwrap_or(SECONDS);
    eprintln!("{way:?}: RONDE_CHAOS_SEED={seed} RONDE_CHAOS_SECONDS={seconds}");
    (seed, seconds)
}

#[expect(clippy::disallowed_methods, reason = "these two variables are for tests")]
fn setting<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn now() -> Instant {
    Instant::now()
}
