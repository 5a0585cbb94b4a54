//! `doctor` in clusters where something is wrong, which the tests make so: here the bare API of another process, with an
//! operator beside it or without.

use std::io::{BufRead as _, BufReader};

use insta::assert_snapshot;
use regex::Regex;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, kill};

#[test]
fn a_machine_that_runs_jobs_is_in_order() {
    let sandbox = Sandbox::new();
    sandbox.up_with_nodes();
    sandbox.until("doctor", "nothing found in 10 of 10 checks");
    assert!(sandbox.run("doctor").status.success());
}

#[test]
fn each_fault_is_found_with_a_command_against_it() {
    let sandbox = Sandbox::new();
    sandbox.up();
    assert_snapshot!("doctor_without_operator", sandbox.transcript("doctor"));

    let mut operator = sandbox.start_without_log("operator");
    let mut says = BufReader::new(operator.stderr()).lines();
    assert!(says.next().unwrap().unwrap().starts_with("active;"));
    assert_eq!(
        sandbox.describe("", &sandbox.run("doctor")),
        "$ ronde \nexit code: 0\n----- stdout\nnothing found in 10 of 10 checks\n"
    );
    kill(operator.pid(), "INT");
    assert_eq!(operator.wait().status.code(), Some(0));

    make_an_old_definition(&sandbox);
    sandbox.write("faults.yaml", FAULTS);
    assert_eq!(sandbox.run("apply -f faults.yaml").status.code(), Some(0));
    assert_snapshot!("doctor_with_faults", without_seconds(&sandbox.transcript("doctor")));
    let output = sandbox.run("doctor -o json");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = report["findings"].as_array().unwrap().iter();
    let checks: Vec<&str> = found.map(|finding| finding["check"].as_str().unwrap()).collect();
    assert_eq!(checks, ["definitions", "leader", "operator-access", "rivals", "agent-image", "clocks"]);
    assert_eq!((output.status.code(), &report["skipped"]), (Some(1), &json!([])));
}

#[test]
fn a_user_without_rights_learns_who_can_give_them() {
    let sandbox = Sandbox::new();
    sandbox.up();
    let mut kubeconfig: Value = serde_saphyr::from_str(&sandbox.read(".kube/config")).unwrap();
    kubeconfig["users"][0]["user"]["as"] = "ann".into();
    sandbox.write("ann", &kubeconfig.to_string());
    assert_snapshot!("doctor_without_rights", sandbox.transcript("doctor --kubeconfig ann -n ml"));
}

#[test]
fn a_cluster_that_does_not_answer_cannot_be_looked_at() {
    let sandbox = Sandbox::new();
    assert_snapshot!("doctor_without_a_cluster", sandbox.transcript("doctor"));
}

/// Takes a field out of a definition, as if an older program had written it.
fn make_an_old_definition(sandbox: &Sandbox) {
    const NAME: &str = "trainingjobs.kai.alibabacloud.com";
    let stored = sandbox.run(&format!("get crd {NAME} -o json")).stdout;
    let mut definition: Value = serde_json::from_slice(&stored).unwrap();
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    let spec = &mut versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert!(spec["properties"].as_object_mut().unwrap().remove("launcherAttachMode").is_some());
    definition["metadata"] = json!({"name": NAME});
    definition.as_object_mut().unwrap().remove("status");
    sandbox.write("old.json", &definition.to_string());
    for line in [format!("delete crd {NAME}"), "apply -f old.json".to_owned()] {
        let output = sandbox.run(&line);
        assert!(output.status.success(), "{}", sandbox.describe(&line, &output));
    }
}

fn without_seconds(text: &str) -> String {
    Regex::new(r"\d+ seconds").unwrap().replace_all(text, "[SECONDS] seconds").into_owned()
}

/// Volcano's scheduler, an operator whose account may do nothing, and a node whose clock has stood still.
const FAULTS: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: volcano-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: ronde-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: volcano-scheduler, namespace: volcano-system, labels: {app: volcano-scheduler}}
spec:
  selector: {matchLabels: {app: volcano-scheduler}}
  template:
    metadata: {labels: {app: volcano-scheduler}}
    spec: {containers: [{name: scheduler, image: example.test/vc-scheduler}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ronde, namespace: ronde-system, labels: {helm.sh/chart: ronde-0.1.0}}
spec:
  selector: {matchLabels: {app: ronde}}
  template:
    metadata: {labels: {app: ronde}}
    spec: {serviceAccountName: ronde, containers: [{name: operator, image: example.test/ronde, args: [operator]}]}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: slow, namespace: kube-node-lease}
spec: {holderIdentity: slow, leaseDurationSeconds: 40, renewTime: '2001-01-01T00:00:00.000000Z'}
";
