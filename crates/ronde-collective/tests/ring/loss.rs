//! Ranks that leave, are late, are strangers; and rings that are formed again and again.

use std::{
    sync::{Mutex, atomic::AtomicUsize, atomic::Ordering},
    thread,
    time::Duration,
};

use ronde_collective::{Engine, Error, Rank, ReduceOp, Secret, Stall};
use ronde_sim::wait_until;

use crate::fixture::{Spread, allreduce, barrier, config, floats, ring, ring_with, server};

#[test]
fn who_waits_for_a_rank_that_left_is_told() {
    for spread in [Spread::OneHost, Spread::Tcp, Spread::Hosts(2)] {
        ring(3, spread, |engine| {
            engine.run(barrier("begin")).unwrap();
            if engine.rank() == Rank(2) {
                return engine.shutdown();
            }
            let error = engine.run(allreduce("x", ReduceOp::Sum, &[1.0])).unwrap_err();
            assert!(matches!(error, Error::Shutdown(Some(_)) | Error::Lost { .. }), "{spread:?}: {error}");
            let again = engine.run(barrier("y")).unwrap_err();
            assert!(again.is_fatal(), "the engine took work after it failed: {again}");
        });
    }
}

#[test]
fn a_shutdown_ends_what_is_in_flight() {
    for spread in [Spread::OneHost, Spread::Tcp] {
        ring(2, spread, |engine| {
            engine.run(barrier("begin")).unwrap();
            let handle = engine.submit(barrier(&format!("of {}", engine.rank()))).unwrap();
            // Nobody else asks for it; but the other may have left already.
            let early = handle.wait(Some(Duration::from_millis(10)));
            engine.shutdown();
            let error = early.or_else(|| handle.wait(Some(Duration::from_secs(60)))).expect("it hangs").unwrap_err();
            assert!(matches!(error, Error::Shutdown(_)), "{error}");
        });
    }
}

#[test]
fn a_stall_names_ranks_and_tensors_and_ends_if_asked_to() {
    for spread in [Spread::OneHost, Spread::Tcp] {
        // Warned for ever, or given up for once: a busy machine may pause for longer than lies between two limits.
        let soon = Some(Duration::from_millis(120));
        let warned = Stall { warn_after: soon, fail_after: None };
        let given_up = Stall { warn_after: None, fail_after: soon };
        for limits in [warned, given_up] {
            let report = stalled(spread, limits);
            assert!(report.contains("Missing ranks:\n1: [late]"), "{spread:?}: {report}");
        }
    }
}

/// What the first rank is told while it waits for the second, until it gives up or has been warned twice.
fn stalled(spread: Spread, limits: Stall) -> String {
    let is_over = AtomicUsize::new(0);
    let change = |config: &mut ronde_collective::Config| config.stall = limits;
    // No barrier first: a rank that is late for it would be the stall.
    let reports = ring_with(2, spread, change, |engine| {
        if engine.rank() == Rank(1) {
            let is_over = || (is_over.load(Ordering::SeqCst) > 0).then_some(());
            wait_until("rank 0 has been told", Duration::from_secs(60), is_over);
            return String::new();
        }
        let handle = engine.submit(allreduce("late", ReduceOp::Sum, &[1.0])).unwrap();
        if limits.fail_after.is_some() {
            let error = handle.wait(None).unwrap().unwrap_err();
            assert!(matches!(error, Error::Stalled(_)), "{error}");
        }
        let enough = if limits.fail_after.is_some() { 1 } else { 2 };
        let is_told = || Some(engine.counters()).filter(|counters| counters.stalls >= enough);
        let counters = wait_until("it is told", Duration::from_secs(60), is_told);
        is_over.store(1, Ordering::SeqCst);
        counters.last_stall.unwrap()
    });
    reports[0].clone()
}

#[test]
fn who_does_not_come_is_named() {
    let server = server();
    let mut alone = config(0, 3, Spread::OneHost, &server);
    alone.start_timeout = Duration::from_millis(50);
    let error = Engine::start(alone).unwrap_err().to_string();
    assert!(error.ends_with("timed out waiting for ranks 1, 2"), "{error}");
    assert_eq!(server.open_scopes(), 0, "the server keeps what nobody waits for");
}

#[test]
fn a_wrong_secret_is_not_let_in() {
    let server = server();
    let mut stranger = config(0, 2, Spread::OneHost, &server);
    stranger.secret = Secret::new(b"a guess");
    let error = Engine::start(stranger).unwrap_err().to_string();
    assert!(error.contains("secret"), "{error}");
}

#[test]
fn ranks_meet_in_a_directory_too() {
    let directory = tempfile::tempdir().unwrap();
    let change = |config: &mut ronde_collective::Config| {
        config.rendezvous = ronde_collective::Rendezvous::Directory(directory.path().to_owned());
    };
    ring_with(2, Spread::OneHost, change, |engine| {
        assert_eq!(floats(&engine.run(allreduce("x", ReduceOp::Sum, &[1.0])).unwrap(), 0), [2.0]);
    });
}

/// Threads and descriptors of this process; other tests run beside this one, so it is alone in its kind.
fn footprint() -> (usize, usize) {
    let count = |path: &str| std::path::Path::new(path).read_dir().unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn an_engine_can_be_started_again_and_again() {
    let _alone = ALONE.lock().unwrap();
    let server = server();
    let once = |round: usize, spread: Spread| {
        thread::scope(|threads| {
            for rank in 0..2 {
                let mut config = config(rank, 2, spread, &server);
                config.scope = format!("again-{spread:?}-{round}");
                threads.spawn(move || {
                    let engine = Engine::start(config).unwrap();
                    let handle = engine.submit(allreduce("x", ReduceOp::Sum, &[1.0])).unwrap();
                    assert_eq!(floats(&handle.wait(None).unwrap().unwrap(), 0), [2.0]);
                    engine.run(barrier("end")).unwrap();
                });
            }
        });
    };
    for round in 0..100 {
        once(round, if round % 4 == 0 { Spread::Tcp } else { Spread::OneHost });
    }
    // Other tests come and go; a leak would be hundreds.
    let (descriptors, threads) = footprint();
    assert!(descriptors < 400 && threads < 200, "{descriptors} descriptors, {threads} threads");
    assert_eq!(server.open_scopes(), 0);
}
