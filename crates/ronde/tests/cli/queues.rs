//! Queues as their users see them: created, shown, closed, opened, deleted.

use std::io::{BufRead as _, BufReader};

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, kill};

#[test]
fn queues_are_created_shown_and_deleted() {
    let sandbox = Sandbox::new();
    sandbox.up_with_nodes();
    sandbox.until("queue list", "root     1        Open");
    let shares = "--weight 3 --capability cpu=4,memory=8Gi --deserved cpu=2 --guarantee cpu=1";
    let lines = [
        &format!(
            "queue create gpu {shares} --reclaimable=false --priority 5 --max-running-jobs 3 --dequeue-strategy fifo"
        ),
        "queue create team --parent gpu",
        "queue create gpu",
        "queue create lost --parent nobody --deserved cpu=2 --capability cpu=1",
    ];
    let created = lines.map(|line| sandbox.transcript(line)).join("\n");
    sandbox.until("queue list", "team      gpu      1        Open");
    sandbox.until("queue list", "gpu       root     3        Open");
    let lines = [
        "queue list",
        "queue list -o wide",
        "queue list -o name",
        "queue get gpu",
        "queue get gpu -o name",
        "queue get none",
        "queue defragment",
        "queue defragment none --dry-run",
        "queue delete gpu",
        "queue delete team -q",
        "queue delete team",
        "queue delete team --ignore-not-found",
        "queue delete default",
        "queue delete gpu --wait=false",
    ];
    let shown = lines.map(|line| sandbox.transcript(line)).join("\n");
    assert_snapshot!("queues", format!("{created}\n{shown}"));
    let json = sandbox.run("queue get default -o json").stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((json["kind"].as_str(), json["spec"]["weight"].as_i64()), (Some("Queue"), Some(1)));
    let yaml = String::from_utf8(sandbox.run("queue list -o yaml").stdout).unwrap();
    assert!(yaml.starts_with("---\napiVersion: v1\nitems:\n- apiVersion: scheduling.volcano.sh/v1beta1\n"), "{yaml}");
}

#[test]
fn queues_are_closed_and_opened() {
    let sandbox = Sandbox::new();
    sandbox.up_with_nodes();
    for line in ["queue create gpu", "queue create team --parent gpu"] {
        assert!(sandbox.run(line).status.success(), "{line}");
    }
    let closing = ["queue close gpu -q", "queue close gpu", "queue close root", "queue close none"];
    let closing = closing.map(|line| sandbox.transcript(line)).join("\n");
    sandbox.until("queue get team", "Closed");
    let opening = ["queue open team", "queue open gpu -q", "queue open gpu"];
    let opening = opening.map(|line| sandbox.transcript(line)).join("\n");
    sandbox.until("queue get team", "Open");
    assert_snapshot!("queue_states", format!("{closing}\n{opening}"));
}

#[test]
fn queues_are_watched() {
    let sandbox = Sandbox::new();
    sandbox.up_with_nodes();
    sandbox.until("queue list", "root     1        Open");
    let watch = |line: &str| {
        let mut running = sandbox.start(line);
        let mut lines = BufReader::new(running.stdout()).lines();
        // The header tells that it has begun.
        assert!(lines.next().unwrap().unwrap().starts_with("NAME "));
        (running, lines)
    };
    let (all, mut rows) = watch("queue list --watch");
    let (one, mut own) = watch("queue get default -w");
    assert!(sandbox.run("queue create gpu").status.success());
    let seen = rows.find(|row| row.as_ref().unwrap().starts_with("gpu "));
    assert!(seen.is_some(), "the new queue");
    assert!(sandbox.run("queue delete gpu").status.success());
    let gone = rows.find(|row| row.as_ref().unwrap().contains("Deleted"));
    assert!(gone.unwrap().unwrap().starts_with("gpu "), "the queue that has gone");
    let first = own.next().unwrap().unwrap();
    assert!(first.starts_with("default "), "{first}");
    kill(all.pid(), "TERM");
    kill(one.pid(), "TERM");
    assert_eq!(own.count(), 0, "nothing has happened to the other");
}

#[test]
fn a_queue_with_a_job_in_it_is_closing() {
    let sandbox = Sandbox::new();
    sandbox.up_with_nodes();
    assert!(sandbox.run("queue create gpu").status.success());
    let job = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: lm}\nspec:\n  queue: gpu\n  tasks:\n  \
               - {name: a, replicas: 1, template: {spec: {containers: [{name: c, image: none, command: [sleep, inf]}]}}}\n";
    sandbox.write("lm.yaml", job);
    assert!(sandbox.run("apply -f lm.yaml").status.success());
    sandbox.until("list", "Running");
    sandbox.until("queue get gpu", "Open    0         0         1");
    let before = ["queue get gpu", "queue close gpu --wait=false"].map(|line| sandbox.transcript(line)).join("\n");
    sandbox.until("queue get gpu", "Closing");
    let after = sandbox.transcript("queue close gpu --timeout 1500ms");
    let mut close = sandbox.start("queue close gpu");
    let mut says = BufReader::new(close.stderr()).lines().map(Result::unwrap);
    assert!(says.any(|line| line.starts_with("waiting")));
    assert!(sandbox.run("delete vcjob lm").status.success());
    let closed = std::io::read_to_string(close.stdout()).unwrap();
    assert_eq!(closed, "queue.scheduling.volcano.sh/gpu closed\n");
    assert_snapshot!("queue_closing", format!("{before}\n{after}"));
}
