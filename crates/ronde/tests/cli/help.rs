//! The help of every verb, and what happens to arguments that make no sense.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn every_verb_explains_itself() {
    let sandbox = Sandbox::new();
    let all = [
        "--help",
        "demo --help",
        "up --help",
        "down --help",
        "status --help",
        "doctor --help",
        "backup --help",
        "restore --help",
        "apply --help",
        "get --help",
        "operator --help",
    ];
    assert_snapshot!("help", all.map(|line| sandbox.transcript(line)).join("\n"));
    let all = ["delete --help", "list --help", "logs --help", "job --help", "job suspend --help"];
    assert_snapshot!("help_jobs", all.map(|line| sandbox.transcript(line)).join("\n"));
    let all = ["install --help", "uninstall --help"];
    assert_snapshot!("help_charts", all.map(|line| sandbox.transcript(line)).join("\n"));
    let all = ["agent --help", "agent install --help", "rsh --help"];
    assert_snapshot!("help_agents", all.map(|line| sandbox.transcript(line)).join("\n"));
    let all = ["submit --help", "submit etjob -h", "submit mpijob -h", "submit pytorchjob -h", "submit tfjob -h"];
    let more =
        ["submit volcanojob -h", "scaleout etjob --help", "scalein etjob --help", "suspend --help", "attach --help"];
    let rest = ["top --help", "top job --help", "top node --help", "prune --help", "completion -h", "whoami --help"];
    let all = all.into_iter().chain(more).chain(rest);
    assert_snapshot!("help_training", all.map(|line| sandbox.transcript(line)).collect::<Vec<_>>().join("\n"));
    let all = ["queue --help", "queue list --help", "queue get --help", "queue create --help", "queue close --help"];
    let all = all.into_iter().chain(["queue defragment --help", "queue delete --help"]);
    assert_snapshot!("help_queues", all.map(|line| sandbox.transcript(line)).collect::<Vec<_>>().join("\n"));
    let all = ["flow --help", "flow list --help", "flow get -h", "flow create -h", "flow delete -h"];
    let all = all.into_iter().chain(["cron --help", "cron list -h", "cron suspend --help", "cron tfjob -h"]);
    assert_snapshot!("help_crons", all.map(|line| sandbox.transcript(line)).collect::<Vec<_>>().join("\n"));
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let sandbox = Sandbox::new();
    let all = [
        "",
        "dance",
        "up --listen 0.0.0.0:6443",
        "up --listen here",
        "up --nodes -3",
        "submit etjob --name a --workers -3 true",
        "apply",
        "get",
        "get pods -o xml",
        "get pods web -A",
        "status -o yaml",
        "delete",
        "delete pods",
        "delete pod/web db",
        "delete pod web -f web.yaml",
        "list -n a -A",
        "logs",
        "logs deploy/web",
        "logs pod/web --task worker",
        "logs web -f -p",
        "job",
        "job suspend",
        "job resume mnist --timeout 5",
        "job restart mnist --timeout=-5s",
        "queue",
        "queue create",
        "queue create gpu --weight 0",
        "queue create gpu --capability cpu=many",
        "queue create gpu --dequeue-strategy lifo",
        "queue close gpu --wait=maybe",
        "install horovod",
        "install horovod mnist --name other",
        "uninstall",
    ];
    assert_snapshot!("usage", all.map(|line| sandbox.transcript(line)).join("\n"));
}

#[test]
fn the_version_is_printed() {
    let output = Sandbox::new().run("--version");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("ronde {}\n", env!("CARGO_PKG_VERSION")));
}
