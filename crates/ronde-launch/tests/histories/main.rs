//! The elastic driver through thousands of seeded histories: hosts come and go, workers die, fall silent, are stopped
//! for a while or cut off, the discovery fails, lies or is slow, at any moment, several at once.
//!
//! `world.rs` is a model of everything around the driver, and checks at every step what must always hold.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod random;
mod world;

use world::{Faults, World};

/// How many histories; `RONDE_HISTORIES` for more.
fn histories() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test that can be made longer")]
    let asked = std::env::var("RONDE_HISTORIES").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(400)
}

fn check(name: &str, faults: Faults) {
    for seed in 0..histories() {
        let history = std::panic::catch_unwind(|| World::new(seed, faults).run());
        if let Err(panic) = history {
            let why = panic.downcast_ref::<String>().map_or("?", String::as_str);
            panic!("{name}, seed {seed}: {why}");
        }
    }
}

#[test]
fn nothing_happens() {
    check("nothing happens", Faults::default());
}

#[test]
fn workers_die() {
    check("workers die", Faults { kills: 12, exits: 2, ..Faults::default() });
}

#[test]
fn hosts_come_and_go() {
    check("hosts come and go", Faults { lists: 12, ..Faults::default() });
}

#[test]
fn workers_fall_silent_or_are_cut_off() {
    check("silence", Faults { silences: 3, cuts: 3, ..Faults::default() });
}

#[test]
fn workers_are_stopped_for_a_while() {
    check("stops", Faults { stops: 6, lists: 4, kills: 2, ..Faults::default() });
}

#[test]
fn the_discovery_is_slow() {
    check("delays", Faults { delays: 4, lists: 8, kills: 4, ..Faults::default() });
}

#[test]
fn too_few_hosts_for_too_long_end_the_job() {
    let faults = Faults { kills: 4, lists: 4, has_famine: true, ..Faults::default() };
    check("famine", faults);
    let ends = (0..histories()).map(|seed| World::new(seed, faults).run());
    let short = ends.filter(|history| history.contains("Finish(Short {")).count();
    assert!(short > 0, "no history ended for want of hosts");
}

const EVERYTHING: Faults = Faults {
    kills: 6,
    exits: 1,
    lists: 8,
    silences: 2,
    cuts: 2,
    deaths: 2,
    refusals: 2,
    lies: 3,
    stops: 2,
    delays: 2,
    has_famine: false,
};

#[test]
fn everything_at_once() {
    check("everything", EVERYTHING);
}

#[test]
fn the_same_seed_is_the_same_history() {
    for seed in 0..20 {
        let (one, other) = (World::new(seed, EVERYTHING).run(), World::new(seed, EVERYTHING).run());
        assert!(one == other, "seed {seed} gave two histories");
        assert!(one.len() > 500, "seed {seed} gave no history worth the name");
    }
}
