//! Flows and jobs on a schedule as their users see them: created, shown, suspended, deleted.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// It is due once in four years.
const CRON: &str = r#"
apiVersion: batch.volcano.sh/v1alpha1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 29 2 *"
  timeZone: Asia/Shanghai
  jobTemplate:
    spec:
      tasks:
        - {name: w, replicas: 1, template: {spec: {containers: [{name: c, image: example.test/i}]}}}
"#;

const FLOW: &str = r"
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: night}
spec:
  flows: [{name: prepare}, {name: train, dependsOn: {targets: [prepare]}}]
";

#[test]
fn crons_are_created_shown_suspended_and_deleted() {
    let sandbox = Sandbox::new();
    sandbox.up_with_nodes();
    sandbox.write("cron.yaml", CRON);
    sandbox.write("flow.yaml", FLOW);
    sandbox.write("wrong.yaml", &CRON.replace("0 0 29 2 *", "0 25 * * *").replace("Shanghai", "Nowhere"));
    let lines = [
        "cron list",
        "cron create -f cron.yaml",
        "cron create -f cron.yaml",
        "cron create -f wrong.yaml",
        "cron create -f flow.yaml",
        "cron list -o name",
        "cron get nightly -o name",
        "cron get none",
        "cron suspend nightly",
        "cron suspend nightly",
        "cron resume nightly",
        "cron resume none",
        "cron tfjob --name tf --image i --schedule @daily --ps 1 --history-limit 2 --deadline 60 --suspend -- python3 a.py",
        "cron tfjob --name tf2 --image i --schedule often -- python3 a.py",
        "cron tfjob --name tf2 --image i --schedule @daily --follow --tensorboard -- python3 a.py",
        "cron delete nightly tf",
        "cron delete nightly",
        "cron delete nightly --ignore-not-found",
    ];
    assert_snapshot!("crons", lines.map(|line| sandbox.transcript(line)).join("\n"));
}

#[test]
fn a_cron_of_flags_is_one_manifest() {
    let sandbox = Sandbox::new();
    let line = "cron tfjob --name tf --image i --schedule @daily --time-zone Europe/Berlin --dry-run -- python3 a.py";
    assert_snapshot!("cron_tfjob", sandbox.transcript(line));
}

#[test]
fn flows_are_created_shown_suspended_and_deleted() {
    let sandbox = Sandbox::new();
    sandbox.up_with_nodes();
    sandbox.write("flow.yaml", FLOW);
    let created = ["flow list", "flow create -f flow.yaml"].map(|line| sandbox.transcript(line)).join("\n");
    sandbox.until("flow get night -o wide", "there is no JobTemplate `prepare`");
    let switch = ["flow suspend night", "flow suspend night", "flow suspend none"];
    let suspended = switch.map(|line| sandbox.transcript(line)).join("\n");
    sandbox.until("flow get night -o wide", "no job starts until the flow is resumed");
    let resumed = ["flow resume night", "flow resume night"].map(|line| sandbox.transcript(line)).join("\n");
    sandbox.until("flow get night -o wide", "there is no JobTemplate `prepare`");
    let lines = ["flow list -o name", "flow get none", "flow delete night", "flow list -A"];
    let shown = lines.map(|line| sandbox.transcript(line)).join("\n");
    assert_snapshot!("flows", [created, suspended, resumed, shown].join("\n"));
}
