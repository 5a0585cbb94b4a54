//! Jobs as their users see them: listed, shown, read, told what to do, deleted.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
};

use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::Sandbox;

/// A job of one master and two workers, each with so many CPUs and this script.
fn job(name: &str, cpus: u32, script: &str) -> String {
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  schedulerName: volcano
  tasks:
  - name: master
    replicas: 1
    template: &pod
      spec:
        restartPolicy: Never
        terminationGracePeriodSeconds: 0
        containers:
        - name: main
          image: none
          command: [sh, -c, '{script}']
          resources: {{requests: {{cpu: {cpus}}}}}
  - {{name: worker, replicas: 2, template: *pod}}
"
    )
}

const ENDLESS: &str = "echo ready; while :; do sleep 1; done";

/// A sandbox with jobs, on nodes of this machine.
struct Jobs(Sandbox);

impl Jobs {
    fn start() -> Self {
        let sandbox = Sandbox::new();
        sandbox.up_with_nodes();
        Self(sandbox)
    }

    fn apply(&self, name: &str, cpus: u32, script: &str) {
        let file = self.0.write(&format!("{name}.yaml"), &job(name, cpus, script));
        let output = self.0.run(&format!("apply -f {}", file.display()));
        assert!(output.status.success(), "{}", self.0.describe("apply", &output));
    }

    /// Returns what a user sees, with neutral names of nodes and without events, which come as they come. What waits is
    /// to be quiet, because a slow machine would have it say so.
    fn transcripts(&self, lines: &[&str]) -> String {
        let nodes = String::from_utf8(self.0.run("get nodes -o name").stdout).unwrap();
        let first = nodes.lines().next().unwrap().trim_start_matches("node/").trim_end_matches("-0").to_owned();
        let transcript = |line: &&str| {
            let text = self.0.transcript(line).replace(&format!("{first}-"), "node-");
            text.split("\n\nLAST SEEN").next().unwrap().to_owned()
        };
        lines.iter().map(transcript).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn jobs_are_listed_shown_read_and_deleted() {
    let jobs = Jobs::start();
    jobs.apply("lm", 1, ENDLESS);
    jobs.0.until("list", "lm     volcanojob   Running   3              3");
    jobs.apply("big", 3, ENDLESS);
    jobs.0.until("list -o wide", "0 of 2 nodes fit");
    jobs.0.until("get big", "pods      3 pending");
    jobs.0.until("get big", "podgroup");
    let seen = jobs.transcripts(&["list", "list -o wide", "list -A", "list -o name", "list --queue other"]);
    assert_snapshot!("jobs_list", seen);
    let seen = jobs.transcripts(&["get lm", "get big", "get lm -o wide", "get vcjob lm", "get lm -o name", "get none"]);
    assert_snapshot!("jobs_get", seen);
    let events = String::from_utf8(jobs.0.run("get big").stdout).unwrap();
    let events = events.split_once("\n\nLAST SEEN   OBJECT").unwrap().1;
    assert!(events.contains("podgroup"), "{events}");
    assert!(events.contains("needs 3 pods × 3 cpu; 0 of 2 nodes fit"), "{events}");
    for pod in ["lm-master-0", "lm-worker-0", "lm-worker-1"] {
        jobs.0.until("logs lm", &format!("{pod} | ready"));
    }
    let seen = jobs.transcripts(&[
        "logs lm",
        "logs lm --task worker",
        "logs lm --task worker --index 1",
        "logs vcjob/lm --index 0 --tail 1",
        "logs lm-master-0",
        "logs big --task master",
        "logs lm --task ps",
        "logs lm --index 2",
        "logs none",
        "logs vcjob/none",
    ]);
    assert_snapshot!("jobs_logs", seen);
    let seen = jobs.transcripts(&[
        "delete vcjob big none -q",
        "delete vcjob/big --ignore-not-found",
        "delete -f lm.yaml -f big.yaml -q",
        "delete unicorn lm",
        "list",
    ]);
    assert_snapshot!("jobs_delete", seen);
}

#[test]
fn the_story_of_a_job_is_told_while_it_waits_and_after_its_end() {
    let jobs = Jobs::start();
    jobs.apply("big", 3, ENDLESS);
    jobs.0.until("story big", "message   needs 3 pods × 3 cpu; 0 of 2 nodes fit");
    jobs.apply("lm", 1, r#"echo "Step #10    Loss: 2.5"; echo "Step #20    Loss: 0.5"; sleep 1"#);
    jobs.0.until("story lm", "completed after");
    let seen = |line: &str| String::from_utf8(jobs.0.run(line).stdout).unwrap();
    let told = seen("story lm");
    for part in ["job       lm (Job)", "progress  step 20, loss 0.5000", "submitted to queue default: 3 pods", "loss"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let story: Value = serde_json::from_str(&seen("story lm -o json")).unwrap();
    assert_eq!((&story["version"], &story["phase"]), (&1.into(), &"Completed".into()));
    assert_eq!(story["samples"].as_array().unwrap().len(), 2, "{story}");
    let picture = seen("story lm -o svg");
    assert!(
        picture.starts_with("<svg ") && picture.contains("<polyline") && picture.ends_with("</svg>\n"),
        "{picture}"
    );
    assert_snapshot!("jobs_story", jobs.transcripts(&["story none", "story lm -o xml", "story lm -T pytorchjob"]));
}

#[test]
fn a_job_whose_containers_cannot_start_says_why() {
    let jobs = Jobs::start();
    let file = jobs.0.write("bare.yaml", &job("bare", 0, "").replace("command: [sh, -c, '']", "command: []"));
    assert!(jobs.0.run(&format!("apply -f {}", file.display())).status.success());
    jobs.0.until("get bare", "pods      3 pending");
    jobs.0.until("list", "pod bare-master-0: CreateContainerError in container main: no command specified");
    let seen = jobs.transcripts(&["list", "get bare", "logs bare --task master", "logs bare-master-0"]);
    assert_snapshot!("jobs_that_cannot_start", seen);
    // Who follows it is told at once, and not left alone with silence.
    let mut following = jobs.0.start("logs -f bare --task master");
    let mut line = String::new();
    BufReader::new(following.stderr()).read_line(&mut line).unwrap();
    assert!(line.contains("has not started: CreateContainerError in container main: no command specified"), "{line}");
}

#[test]
fn every_name_is_tried_when_jobs_are_deleted() {
    let jobs = Jobs::start();
    for name in ["a", "b", "c", "d", "e"] {
        jobs.apply(name, 0, "true");
    }
    let seen = jobs.transcripts(&[
        "delete a gone --ignore-not-found -q",
        "delete gone b --ignore-not-found -q",
        "delete c gone none -q",
        "delete unicorn d -q",
        "delete gone",
        "delete vcjob d --all",
        "delete vcjob",
        "delete vcjob --all -q",
        "delete vcjob --all",
    ]);
    assert_snapshot!("jobs_delete_several", seen);
}

#[test]
fn jobs_are_suspended_resumed_and_restarted() {
    let jobs = Jobs::start();
    jobs.apply("lm", 1, ENDLESS);
    jobs.apply("done", 0, "true");
    jobs.0.until("list", "lm     volcanojob   Running");
    jobs.0.until("list", "done   volcanojob   Completed");
    let seen = jobs.transcripts(&[
        "job suspend lm -q",
        "job suspend lm",
        "job restart lm",
        "list",
        "job resume lm -q",
        "job resume lm",
        "job restart lm -q",
        "job suspend done",
        "job resume none",
        "job suspend lm --wait=false",
    ]);
    assert_snapshot!("jobs_orders", seen);
    jobs.0.until("list", "lm     volcanojob   Aborted");
}

#[test]
fn the_log_of_a_job_is_followed_to_its_end() {
    let jobs = Jobs::start();
    jobs.apply("lm", 1, "echo one; sleep 0.2; printf two");
    let output = jobs.0.run("logs lm -f");
    assert!(output.status.success(), "{}", jobs.0.describe("logs lm -f", &output));
    let text = String::from_utf8(output.stdout).unwrap();
    let of = |pod: &str| text.lines().filter(|line| line.starts_with(pod)).collect::<Vec<_>>();
    assert_eq!(of("lm-worker-1"), ["lm-worker-1 | one", "lm-worker-1 | two"]);
    assert_eq!(text.lines().count(), 6, "{text}");
}

#[test]
fn a_watched_list_shows_jobs_come_and_go() {
    let jobs = Jobs::start();
    jobs.apply("lm", 3, ENDLESS);
    jobs.0.until("list -o wide", "0 of 2 nodes fit");
    let mut watch = jobs.0.start("list --watch");
    let mut lines = BufReader::new(watch.stdout()).lines().map(Result::unwrap);
    let cells = |line: String| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
    let head = lines.next().unwrap();
    assert!(head.ends_with(" MESSAGE"), "{head}");
    assert_eq!(cells(head), "NAME TYPE STATUS MINAVAILABLE");
    let waits = lines.next().unwrap();
    assert!(waits.contains("0 of 2 nodes fit"), "{waits}");
    assert_eq!(cells(waits), "lm volcanojob Pending 3");
    assert!(jobs.0.run("job suspend lm").status.success());
    // Until then it may wait for something else, which is told too.
    let aborted = lines.find(|line| line.contains("Abort") && !line.contains("Aborting")).unwrap();
    assert_eq!(cells(aborted), "lm volcanojob Aborted 3");
    assert!(jobs.0.run("delete vcjob lm").status.success());
    assert_eq!(cells(lines.next().unwrap()), "lm volcanojob Deleted 3");
}

#[test]
fn a_watched_job_says_what_it_waits_for_and_others_are_not_shown() {
    let jobs = Jobs::start();
    jobs.apply("lm", 3, ENDLESS);
    jobs.apply("other", 3, ENDLESS);
    jobs.0.until("get lm", "0 of 2 nodes fit");
    let mut watch = jobs.0.start("get lm --watch");
    let mut lines = BufReader::new(watch.stdout()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().ends_with(" MESSAGE"));
    let waits = lines.next().unwrap();
    assert!(waits.starts_with("lm ") && waits.contains("0 of 2 nodes fit"), "{waits}");
    assert!(jobs.0.run("delete vcjob other lm").status.success());
    assert!(lines.find(|line| line.contains("Deleted")).unwrap().starts_with("lm "));
}

#[test]
fn a_cluster_without_jobs_or_controllers_says_so() {
    let sandbox = Sandbox::new();
    sandbox.up();
    let lines = ["list", "job suspend lm", "queue list", "get lm", "logs lm"];
    let without_kinds = lines.map(|line| sandbox.transcript(line)).join("\n");
    let kinds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ronde-api/crds");
    assert!(sandbox.run(&format!("apply -f {}", kinds.display())).status.success());
    sandbox.write("lm.yaml", &job("lm", 1, ENDLESS));
    sandbox.until("get crds", "jobs.batch.volcano.sh");
    let lines = [
        "queue create root",
        "queue create default",
        "apply -f lm.yaml",
        "list -o wide",
        "get lm",
        "logs lm",
        "job suspend lm --timeout 1500ms",
        "queue close default --timeout 1ms -q",
    ];
    let without_controllers = lines.map(|line| sandbox.transcript(line)).join("\n");
    assert_snapshot!("jobs_without_cluster", format!("{without_kinds}\n{without_controllers}"));
}
