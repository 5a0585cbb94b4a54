//! How jobs end, and that nothing is left of them.

use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{BUSY, Running, SOON, Sandbox};

/// A rank with a child in a session of its own; both take no notice of SIGTERM.
const STUBBORN: &str = "trap '' TERM INT; setsid sleep 600 & echo ready; while :; do sleep 600; done";
/// One that ends when it is asked to.
const POLITE: &str = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done";

#[test]
fn the_first_failure_ends_the_job_with_its_code() {
    let sandbox = Sandbox::new();
    let line = "if [ $HOROVOD_RANK = 1 ]; then echo first >&2; echo very bad >&2; exit 3; fi; sleep 600";
    let said = sandbox.run(&["-np", "3"], line);
    assert_eq!(said.code, Some(3));
    let expected = "[1]<stderr>:first\n[1]<stderr>:very bad\nProcess 1 exit with status code 3.\n\
                    Terminating remaining workers after failure of Process 1.\n\
                    error: rank 1 on host `localhost` exited with code 3\n  its last lines on stderr:\n    first\n    very bad\n";
    // The two lines of the rank and ours come by different ways.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&said.stderr), sorted(expected));
    sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn a_signal_is_named() {
    let said = Sandbox::new().run(&["-np", "2"], "[ $HOROVOD_RANK = 0 ] && kill -SEGV $$; sleep 600");
    assert_eq!(said.code, Some(139));
    assert!(said.stderr.contains("rank 0 on host `localhost` was killed by signal 11 (SIGSEGV)"), "{}", said.stderr);
}

#[test]
fn a_missing_program_is_named() {
    let sandbox = Sandbox::new();
    for (program, code, hint) in [("no-such-program", 127, "name it by its path"), ("/etc/passwd", 126, "`chmod +x`")] {
        for flags in [["-np", "1"], ["--min-np", "1"]] {
            let output = sandbox.launcher(&[flags.as_slice(), &[program, "x"]].concat()).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{stderr}");
            assert!(stderr.contains(&format!("[0]<stderr>:ronde: cannot run `{program}`")), "{stderr}");
            let (_, last) = stderr.rsplit_once("\n\nhint: the program has to be ").unwrap();
            assert!(last.contains(hint), "{stderr}");
        }
    }
    sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn what_a_rank_leaves_behind_ends_with_it() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(&["-np", "2"], "setsid sleep 600 & (trap '' HUP; sleep 600) & echo ok");
    assert_eq!((said.code, said.sorted().len()), (Some(0), 2));
    sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn ranks_that_ignore_sigterm_are_killed() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(&["-np", "2"], "trap '' TERM; [ $HOROVOD_RANK = 0 ] && exit 4; while :; do sleep 600; done");
    assert_eq!(said.code, Some(4));
    sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn nothing_outlives_a_launcher_that_was_killed() {
    let sandbox = Sandbox::new();
    let mut running = Running::start(sandbox.launcher(&["-np", "4", "sh", "-c", STUBBORN]), 4);
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    sandbox.wait_for_nothing_left(ronde_launch::start::NOTICED_WITHIN + BUSY);
}

#[test]
fn ctrl_c_asks_the_ranks_to_end() {
    let sandbox = Sandbox::new();
    let running = Running::start(sandbox.launcher(&["-np", "2", "sh", "-c", POLITE]), 2);
    running.signal(Signal::INT);
    let said = running.end();
    assert_eq!(said.code, Some(130));
    assert_eq!(said.sorted(), ["[0]<stdout>:bye", "[0]<stdout>:ready", "[1]<stdout>:bye", "[1]<stdout>:ready"]);
    assert!(said.stderr.starts_with("stopping (Ctrl-C again: at once)\n"), "{}", said.stderr);
}

#[test]
fn ctrl_c_twice_ends_them_at_once() {
    let sandbox = Sandbox::new();
    let mut running = Running::start(sandbox.launcher(&["-np", "2", "sh", "-c", STUBBORN]), 2);
    running.signal(Signal::INT);
    let mut stderr = running.child.stderr.take().unwrap();
    let mut first = [0; 8];
    std::io::Read::read_exact(&mut stderr, &mut first).unwrap();
    running.signal(Signal::INT);
    assert_eq!(running.end().code, Some(130));
    sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn sigterm_ends_the_job() {
    let sandbox = Sandbox::new();
    let running = Running::start(sandbox.launcher(&["-np", "2", "sh", "-c", POLITE]), 2);
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(143));
    sandbox.wait_for_nothing_left(SOON);
}

/// A keeper is two processes; without either, nothing stays that the rank has started.
#[test]
fn a_rank_whose_keeper_is_killed_is_gone_with_all_that_it_started() {
    for (victim, code) in [("$PPID", 255), ("$(cut -d ' ' -f 4 /proc/$PPID/stat)", 137)] {
        let sandbox = Sandbox::new();
        let line = format!("[ $HOROVOD_RANK = 1 ] && echo {victim} > keeper; {STUBBORN}");
        let running = Running::start(sandbox.launcher(&["-np", "2", "sh", "-c", &line]), 2);
        let keeper = fs_err::read_to_string(sandbox.path("keeper")).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(keeper).unwrap(), Signal::KILL).unwrap();
        let said = running.end();
        assert_eq!(said.code, Some(code), "{}", said.stderr);
        assert!(said.stderr.contains("rank 1 on host `localhost` was "), "{}", said.stderr);
        sandbox.wait_for_nothing_left(SOON);
    }
}

#[test]
fn a_launcher_and_a_keeper_may_be_killed_at_once() {
    let sandbox = Sandbox::new();
    let line = format!("echo $PPID > keeper; {STUBBORN}");
    let mut running = Running::start(sandbox.launcher(&["-np", "1", "sh", "-c", &line]), 1);
    let keeper = fs_err::read_to_string(sandbox.path("keeper")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(keeper).unwrap(), Signal::KILL).unwrap();
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    sandbox.wait_for_nothing_left(ronde_launch::start::NOTICED_WITHIN + BUSY);
}
