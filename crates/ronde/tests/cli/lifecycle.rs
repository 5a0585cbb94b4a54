//! `up` and `down`: in the foreground, in the background, twice, and after `kill -9`.

use std::io::{BufRead as _, BufReader};

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, kill, mode};

#[test]
fn up_in_the_background_and_down() {
    let sandbox = Sandbox::new();
    let up = sandbox.transcript("up --detach --listen 127.0.0.1:0");
    sandbox.until_ready();
    let down = sandbox.transcript("down");
    let again = sandbox.transcript("down");
    assert_snapshot!("up_detached_and_down", [up, down, again].join("\n"));
    assert_eq!(sandbox.status()["running"], false);
}

#[test]
fn secrets_are_for_the_user_alone() {
    let sandbox = Sandbox::new();
    sandbox.up();
    assert_eq!(mode(&sandbox.path("data")), 0o700);
    assert_eq!(mode(&sandbox.path(".kube/config")), 0o600);
    for entry in fs_err::read_dir(sandbox.path("data")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.contains("key") || name.contains("token") || name == "kubeconfig" {
            assert_eq!(mode(&path), 0o600, "{name}");
        }
    }
}

#[test]
fn up_in_the_foreground_ends_with_ctrl_c() {
    let sandbox = Sandbox::new();
    let line = "up --listen 127.0.0.1:0";
    let running = sandbox.up_in_foreground(line);
    assert!(sandbox.read(".kube/config").contains("current-context: ronde"));
    kill(running.pid(), "INT");
    assert_snapshot!("up_and_ctrl_c", sandbox.describe(line, &running.wait()));
    assert_eq!(sandbox.read(".kube/config"), "(none)");
}

#[test]
fn up_in_the_foreground_ends_with_sigterm_and_sighup() {
    for signal in ["TERM", "HUP"] {
        if signal == "HUP" && is_hangup_ignored() {
            ronde_sim::skip("the tests run under nohup: a hangup is ignored here");
            continue;
        }
        let sandbox = Sandbox::new();
        let running = sandbox.up_in_foreground("up --quiet --listen 127.0.0.1:0");
        kill(running.pid(), signal);
        let output = running.wait();
        assert_eq!(output.status.code(), Some(0), "{signal}");
        assert_eq!(sandbox.read(".kube/config"), "(none)", "{signal}");
    }
}

/// What we ignore our children ignore too.
fn is_hangup_ignored() -> bool {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|bits| u64::from_str_radix(bits.trim(), 16).is_ok_and(|bits| bits & 1 == 1))
}

#[test]
fn under_nohup_a_hangup_is_no_reason_to_stop() {
    let sandbox = Sandbox::new();
    let running = sandbox.start_under_nohup("up --listen 127.0.0.1:0");
    sandbox.until_ready();
    kill(running.pid(), "HUP");
    sandbox.until_ready();
    assert!(sandbox.run("down").status.success());
}

#[test]
fn the_second_ctrl_c_ends_it_at_once() {
    let sandbox = Sandbox::new();
    let mut running = sandbox.up_in_foreground("up --listen 127.0.0.1:0");
    // Another program holds the kubeconfig, so the graceful end has to wait.
    sandbox.write(".kube/config.lock", "");
    kill(running.pid(), "INT");
    let mut words = BufReader::new(running.stderr()).lines().map(Result::unwrap);
    assert!(words.any(|line| line.starts_with("stopping")));
    kill(running.pid(), "INT");
    assert_eq!(running.wait().status.code(), Some(130));
}

#[test]
fn in_the_background_a_hangup_is_no_reason_to_stop() {
    let sandbox = Sandbox::new();
    sandbox.up();
    kill(sandbox.pid(), "HUP");
    sandbox.until_ready();
}

#[test]
fn the_second_up_on_one_data_directory_says_who_is_there() {
    let sandbox = Sandbox::new();
    sandbox.up();
    let pid = sandbox.pid().to_string();
    let first = sandbox.run("up --listen 127.0.0.1:0");
    assert!(String::from_utf8_lossy(&first.stderr).contains(&pid));
    let second = sandbox.transcript("up --detach --listen 127.0.0.1:0");
    assert_snapshot!("up_twice", [sandbox.describe("up --listen 127.0.0.1:0", &first), second].join("\n"));
    assert_eq!(sandbox.pid().to_string(), pid, "the first one goes on");
    sandbox.until_ready();
}

#[test]
fn a_crowd_of_ups_leaves_exactly_one() {
    let sandbox = Sandbox::new();
    let crowd: Vec<_> = (0..6).map(|_| sandbox.start("up --quiet --listen 127.0.0.1:0")).collect();
    sandbox.until_ready();
    let winner = sandbox.pid();
    let codes: Vec<_> =
        crowd.into_iter().filter(|one| one.pid() != winner).map(|one| one.wait().status.code()).collect();
    assert_eq!(codes, [Some(2); 5]);
}

#[test]
fn after_kill_9_up_works_again() {
    let sandbox = Sandbox::new();
    sandbox.write(
        ".kube/config",
        "apiVersion: v1\nkind: Config\ncurrent-context: mine\ncontexts:\n- context: {}\n  name: mine\n",
    );
    let before = sandbox.read(".kube/config");
    sandbox.up();
    sandbox.kill_9();
    assert!(sandbox.read(".kube/config").contains("current-context: ronde"), "nobody could clean up");
    sandbox.up();
    sandbox.until_ready();
    assert_eq!(sandbox.run("down").status.code(), Some(0));
    assert_eq!(sandbox.read(".kube/config"), with_lists(&before));
}

#[test]
fn after_kill_9_down_cleans_up() {
    let sandbox = Sandbox::new();
    sandbox.up();
    sandbox.kill_9();
    assert_snapshot!("down_after_kill_9", sandbox.transcript("down"));
    assert_eq!(sandbox.read(".kube/config"), "(none)");
}

/// Lists that were not there before stay behind, empty.
fn with_lists(kubeconfig: &str) -> String {
    format!("{kubeconfig}clusters: null\nusers: null\n")
}

#[test]
fn a_port_in_use_is_named() {
    let sandbox = Sandbox::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!("up --listen {}", taken.local_addr().unwrap());
    assert_snapshot!("port_in_use", sandbox.transcript(&line));
    assert_eq!(sandbox.read(".kube/config"), "(none)");
}

#[test]
fn only_a_directory_of_ours_is_used_and_deleted() {
    let sandbox = Sandbox::new();
    sandbox.write("home/thesis.tex", "years of work");
    let up = sandbox.transcript("up --data-dir home --listen 127.0.0.1:0");
    let down = sandbox.transcript("down --data-dir home --delete-data");
    assert_snapshot!("foreign_data_dir", [up, down].join("\n"));
    assert_eq!(sandbox.read("home/thesis.tex"), "years of work");
}

#[test]
fn the_data_is_deleted_when_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.up();
    assert_snapshot!("delete_data", sandbox.transcript("down --delete-data"));
    assert!(!sandbox.path("data").exists());
    assert_eq!(sandbox.run("down --delete-data").status.code(), Some(0), "twice is fine");
}

#[test]
fn a_data_directory_that_cannot_be_made_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("file", "");
    assert_snapshot!("data_dir_is_a_file", sandbox.transcript("up --data-dir file/data"));
}

#[test]
fn two_instances_live_side_by_side() {
    let sandbox = Sandbox::new();
    sandbox.up();
    let taken = sandbox.transcript("up --detach --data-dir second --listen 127.0.0.1:0");
    let apart = sandbox.run("up --detach --data-dir second --listen 127.0.0.1:0 --kubeconfig other");
    assert!(apart.status.success(), "{}", sandbox.describe("up", &apart));
    assert_snapshot!("two_instances", taken);
    sandbox.until("status", "running");
    sandbox.until("status --data-dir second", "running");
    assert!(sandbox.run("down --data-dir second").status.success());
    assert_eq!(sandbox.read("other"), "(none)");
    assert!(sandbox.read(".kube/config").contains("current-context: ronde"));
}

#[test]
fn the_background_writes_a_log_and_not_to_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.up();
    assert!(sandbox.run("down").status.success());
    assert!(sandbox.read("data/ronde.log").contains("stopping on SIGTERM"));
}
