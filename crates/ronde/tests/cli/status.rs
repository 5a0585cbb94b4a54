//! `status`: running, not running, and as JSON.

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, kill};

#[test]
fn pods_that_outlive_a_killed_daemon_are_counted() {
    let sandbox = Sandbox::new();
    sandbox.up_with_nodes();
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
        "terminationGracePeriodSeconds": 0, "containers": [{"name": "web", "image": "x", "command": ["sleep", "1000"]}]}}"#;
    sandbox.write("pod.json", pod);
    assert!(sandbox.run("apply -f pod.json").status.success());
    sandbox.until("get pod web", "Running");
    sandbox.kill_9();
    assert_snapshot!("status_pods_left", sandbox.transcript("status"));
    assert_eq!(sandbox.status()["pods"], 1);
    assert!(sandbox.run("down").status.success());
    assert!(sandbox.status().get("pods").is_none());
}

#[test]
fn status_tells_whether_it_runs() {
    let sandbox = Sandbox::new();
    let before = sandbox.transcript("status");
    let json = sandbox.transcript("status -o json");
    sandbox.up();
    sandbox.until_ready();
    let running = sandbox.run("status");
    let text = String::from_utf8_lossy(&running.stdout).into_owned();
    // What the API holds from the start is its own business.
    let ours: Vec<&str> = text.lines().take_while(|line| !line.starts_with("objects")).collect();
    assert_eq!(running.status.code(), Some(0));
    assert_snapshot!("status", [before, json, sandbox.redact(&ours.join("\n"))].join("\n"));
}

#[test]
fn status_answers_soon_when_the_instance_hangs() {
    let sandbox = Sandbox::new();
    sandbox.up();
    let pid = sandbox.pid();
    kill(pid, "STOP");
    let output = sandbox.run("status");
    kill(pid, "CONT");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("running, but the API does not answer"));
}
