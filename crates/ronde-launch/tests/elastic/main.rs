//! Elastic jobs with real processes: workers are killed, hosts come and go, and the result must be the right one.
//!
//! The hosts are names of this machine. The workers are this test program again, told by a variable to be one
//! (`worker.rs`); that test does nothing otherwise.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod job;
mod worker;

use std::{
    env,
    time::{Duration, Instant},
};

use job::Job;

/// What is promised, and some for a busy machine.
const GONE_WITHIN: Duration = ronde_launch::start::NOTICED_WITHIN.saturating_add(Duration::from_secs(23));
/// With a pause of 10 ms after each more than what a test has to see takes, whatever the machine does besides.
const STEPS: u64 = 6000;

#[test]
#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "a worker is told by its environment, and says how it ends"
)]
fn be_a_worker() {
    if env::var("TEST_WORKER").is_ok() {
        let code = worker::be();
        std::process::exit(code);
    }
}

#[test]
fn one_host_is_enough_to_start() {
    let mut job = Job::hosts("localhost:2\n").steps(30).start("-np 2");
    assert_eq!(job.result(), worker::result(30));
    assert!(job.has_line("step 30 rank 1 of 2"), "{job}");
}

#[test]
fn survivors_go_on_and_the_dead_is_replaced() {
    let mut job = Job::hosts("localhost:2\n127.0.0.1:1\n").steps(STEPS).pause_ms(10).start("-np 3 --min-np 1");
    job.wait_for("of 3");
    let seen = job.lines().len();
    job.kill(2);
    job.wait_after(seen, "of 2");
    let seen = job.lines().len();
    job.wait_after(seen, "of 3");
    assert_eq!(job.result(), worker::result(STEPS), "{job}");
    let starts = job.lines().iter().filter(|line| line.contains("pid ")).count();
    assert_eq!(starts, 4, "nobody but the dead was started again\n{job}");
}

#[test]
fn hosts_are_added_and_removed() {
    let mut job = Job::hosts("localhost:1\n").steps(STEPS).pause_ms(10).start("-np 1 --max-np 2");
    job.wait_for("of 1");
    job.set_hosts("localhost:1\n127.0.0.2:1\n");
    job.wait_for("of 2");
    let seen = job.lines().len();
    job.set_hosts("localhost:1\n");
    job.wait_for("leaves");
    job.wait_after(seen, "of 1");
    assert_eq!(job.result(), worker::result(STEPS), "{job}");
}

#[test]
fn the_state_is_handed_from_old_hosts_to_new_ones() {
    let mut job = Job::hosts("localhost:1\n").steps(STEPS).pause_ms(10).start("-np 1");
    job.wait_for("step 10 ");
    job.set_hosts("127.0.0.2:1\n");
    job.wait_for("leaves");
    assert_eq!(job.result(), worker::result(STEPS), "{job}");
    let begins = job.lines().iter().filter(|line| line.contains("step 1 ")).count();
    assert_eq!(begins, 1, "the training began anew\n{job}");
}

#[test]
fn a_program_that_always_fails_ends_the_job() {
    let mut job = Job::hosts("localhost:2\n").fail_on("localhost").start("-np 2");
    assert_eq!(job.exit_code(), 7, "{job}");
    let said = job.to_string();
    assert!(said.contains("workers fail again and again before their first ring"), "{said}");
    assert!(
        said.contains("its last lines on stderr:\n") && said.contains("\n    no module named tensorflow"),
        "{said}"
    );
}

#[test]
fn a_host_that_always_fails_is_done_without() {
    let hosts = "localhost:1\n127.0.0.2:1\n";
    let mut job = Job::hosts(hosts).fail_on("127.0.0.2").steps(100).pause_ms(10).start("-np 2 --min-np 1");
    assert_eq!(job.result(), worker::result(100), "{job}");
}

#[test]
fn too_few_hosts_for_too_long_end_the_job() {
    let mut job = Job::hosts("localhost:1\n").start("-np 2 --elastic-timeout 1");
    assert_eq!(job.exit_code(), 3, "{job}");
    assert!(job.to_string().contains(" ready after 1 s, at least 2 needed"), "{job}");
}

#[test]
fn the_limit_of_resets_is_heeded() {
    let hosts = "localhost:1\n127.0.0.2:1\n";
    let mut job = Job::hosts(hosts).steps(10_000).pause_ms(5).start("-np 2 --min-np 1 --reset-limit 1");
    job.wait_for("of 2");
    job.kill(1);
    assert_eq!(job.exit_code(), 1, "{job}");
    assert!(job.to_string().contains("number of resets during elastic job exceeded limit: 1"), "{job}");
}

#[test]
fn what_a_worker_and_its_replacement_write_is_kept() {
    let words = "-np 2 --min-np 1 --max-np 2 --output-filename out";
    let mut job = Job::hosts("localhost:1\n127.0.0.2:1\n").steps(STEPS).pause_ms(10).start(words);
    job.wait_for("of 2");
    let seen = job.lines().len();
    job.kill(1);
    job.wait_after(seen, "of 1");
    let seen = job.lines().len();
    job.wait_after(seen, "of 2");
    assert_eq!(job.result(), worker::result(STEPS), "{job}");
    let kept = fs_err::read_to_string(job.path("out/rank.1/stdout")).unwrap();
    assert_eq!(kept.matches("]<stdout>:pid ").count(), 2, "{kept}");
}

#[test]
fn what_is_wrong_with_the_discovery_is_said() {
    for (script, expected) in [
        ("/no/such/program", "was not found"),
        ("echo '<html>'", "expected `host` or `host:slots`, got `<html>`"),
        ("echo a:1; exit 3", "exited with code 3"),
        ("echo no such cloud >&2; exit 1", "exited with code 1: no such cloud"),
        ("echo a:1 > plain; ./plain", "`echo a:1 > plain; ./plain` is not executable; make it so with `chmod +x`"),
        ("kill -9 $$", "was killed by a signal"),
        ("head -c 3000000 /dev/zero", "it printed more than 1 MB"),
        ("sleep 3600", "`sleep 3600` did not finish within 1s"),
    ] {
        let limit = if script.starts_with("sleep") { 1 } else { 60 };
        let mut job = Job::hosts("").discover(script).start(&format!("-np 1 --start-timeout {limit}"));
        assert_eq!(job.exit_code(), 2, "{job}");
        let said = job.to_string();
        assert!(said.starts_with("error: cannot find the hosts of the job\n  cause: `"), "{said}");
        assert!(
            said.contains(expected) && said.contains("\n\nhint: the program of --host-discovery-script "),
            "{said}"
        );
    }
}

#[test]
fn numbers_that_contradict_each_other_are_refused() {
    for (words, expected) in [
        ("-np 2 --min-np 3 --max-np 2", "error: --min-np 3 is more than --max-np 2\n"),
        ("-np 4 --max-np 2 --min-np 1", "error: -np 4 is more than --max-np 2\n"),
        ("-np 1 --blacklist-cooldown-range 9 3", "error: --blacklist-cooldown-range 9 3: the first number"),
    ] {
        let mut job = Job::hosts("").start(words);
        assert_eq!(job.exit_code(), 2, "{job}");
        assert!(job.to_string().starts_with(expected), "{job}");
    }
}

/// A program that finds hosts, and does not end; nor does what it has started in a session of its own.
const HANGING: &str = "trap '' TERM; setsid sleep 600 & echo $$ $! > pids; mv pids hanging; wait; sleep 600";

fn check_hanging(stop: fn(&mut Job)) {
    let mut job = Job::hosts("").discover(HANGING).start("-np 1");
    let pids: Vec<u32> = ronde_sim::wait_until("the program runs", Duration::from_secs(60), || {
        let text = fs_err::read_to_string(job.path("hanging")).ok()?;
        Some(text.split_whitespace().map(|pid| pid.parse().unwrap()).collect())
    });
    stop(&mut job);
    let are_gone = || pids.iter().all(|pid| !job::is_alive(*pid)).then_some(());
    ronde_sim::wait_until("the program is gone", GONE_WITHIN, are_gone);
}

#[test]
fn a_discovery_that_hangs_ends_with_the_launcher() {
    check_hanging(Job::kill_launcher);
    check_hanging(|job| {
        job.interrupt();
        assert_eq!(job.exit_code(), 130, "{job}");
    });
}

#[test]
fn nothing_is_left_of_a_launcher_that_is_killed() {
    let mut job = Job::hosts("localhost:2\n").steps(1_000_000).pause_ms(5).start("-np 2");
    job.wait_for("of 2");
    let pids = job.pids();
    job.kill_launcher();
    let are_gone = || pids.iter().all(|pid| !job::is_alive(*pid)).then_some(());
    ronde_sim::wait_until("the workers are gone", GONE_WITHIN, are_gone);
}

#[test]
fn ctrl_c_ends_the_job() {
    let mut job = Job::hosts("localhost:2\n").steps(1_000_000).pause_ms(5).start("-np 2");
    job.wait_for("of 2");
    let pids = job.pids();
    job.interrupt();
    assert_eq!(job.exit_code(), 130, "{job}");
    assert!(pids.iter().all(|pid| !job::is_alive(*pid)));
}

/// Kills a worker at random moments; `RONDE_STRESS_SECONDS` for longer.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test that takes a while, and can be made longer")]
fn a_training_under_fire_has_the_right_result() {
    let seconds = env::var("RONDE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let until = Instant::now() + Duration::from_secs(seconds);
    let steps = STEPS + 150 * seconds;
    let hosts = "localhost:2\n127.0.0.1:1\n127.0.0.2:1\n";
    let mut job = Job::hosts(hosts).steps(steps).pause_ms(8).start("-np 4 --min-np 1 --blacklist-cooldown-range 1 1");
    job.wait_for("of 4");
    let mut number = 7_usize;
    while Instant::now() < until && job.is_running() {
        let pids: Vec<u32> = job.pids().into_iter().filter(|pid| job::is_alive(*pid)).collect();
        // Rank 0 dies as often as any other; the last one is left alone, since the state would go with it.
        if pids.len() > 1 {
            job::kill(pids[number % pids.len()]);
        }
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(50 + (number >> 40) as u64 % 500));
        if number.is_multiple_of(3) {
            let removed = ["localhost:2\n127.0.0.1:1\n", hosts, "localhost:2\n127.0.0.2:1\n"];
            job.set_hosts(removed[number % removed.len()]);
        }
    }
    job.set_hosts(hosts);
    assert_eq!(job.result(), worker::result(steps), "{job}");
}
