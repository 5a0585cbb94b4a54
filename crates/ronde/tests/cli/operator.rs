//! `operator` against an API that runs elsewhere: here the bare one of another process.

use std::io::{BufRead as _, BufReader, Lines};

use insta::assert_snapshot;

use crate::sandbox::{Running, Sandbox, kill};

/// Starts an operator; returns it with the lines that it says.
fn start(sandbox: &Sandbox) -> (Running, Lines<BufReader<std::process::ChildStderr>>) {
    let mut running = sandbox.start_without_log("operator");
    let lines = BufReader::new(running.stderr()).lines();
    (running, lines)
}

#[test]
fn one_operator_works_and_the_next_waits_for_it() {
    let sandbox = Sandbox::new();
    sandbox.up();
    let (first, mut first_says) = start(&sandbox);
    let works = first_says.next().unwrap().unwrap();
    assert_eq!(works, "active; places the pods of the schedulers `volcano`, `ronde`");
    let queues = sandbox.run("get queues -o name").stdout;
    assert_eq!(
        String::from_utf8(queues).unwrap(),
        "queue.scheduling.volcano.sh/default\nqueue.scheduling.volcano.sh/root\n"
    );
    let (second, mut second_says) = start(&sandbox);
    let waits = second_says.next().unwrap().unwrap();
    assert!(waits.starts_with("on standby: `") && waits.ends_with("` is active"), "{waits}");
    kill(first.pid(), "INT");
    assert_eq!(first_says.next().unwrap().unwrap(), "stopping (Ctrl-C again: at once)");
    assert_eq!(first.wait().status.code(), Some(0));
    assert_eq!(second_says.next().unwrap().unwrap(), works, "it has given the lease up");
    kill(second.pid(), "TERM");
    assert_eq!(second.wait().status.code(), Some(0));
}

#[test]
fn an_operator_leaves_a_machine_alone_that_is_its_own_cluster() {
    let sandbox = Sandbox::new();
    sandbox.up_with_nodes();
    assert_snapshot!("operator_beside_up", sandbox.transcript("operator"));
}

#[test]
fn an_operator_without_a_cluster_says_what_is_missing() {
    let sandbox = Sandbox::new();
    let nowhere = "operator --kubeconfig nowhere";
    sandbox.write("silent", SILENT);
    let lines = ["operator", nowhere, "operator --kubeconfig silent", "operator --kubeconfig silent --context other"];
    assert_snapshot!("operator_without_a_cluster", lines.map(|line| sandbox.transcript(line)).join("\n"));
}

/// The kubeconfig of a cluster that does not answer.
const SILENT: &str = "\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
";
