//! `apply` and `get` against a running instance.

use std::{
    fs::OpenOptions,
    io::{BufRead as _, BufReader},
    path::Path,
};

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// The path of a manifest about a dance, a kind of its own.
fn dance(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/dance").join(name);
    path.to_str().unwrap().to_owned()
}

fn applied(sandbox: &Sandbox, name: &str) {
    let output = sandbox.run(&format!("apply -f {}", dance(name)));
    assert!(output.status.success(), "{}", sandbox.describe("apply", &output));
}

#[test]
fn objects_are_applied_shown_and_survive_kill_9() {
    let sandbox = Sandbox::new();
    sandbox.up();
    let first = sandbox.run(&format!("apply -f {}", dance("objects.yaml")));
    let second = sandbox.run(&format!("apply -f {} -f {}", dance("more-dancers.yaml"), dance("too-few.yaml")));
    sandbox.kill_9();
    sandbox.up();
    let gets = ["get dances -n demo", "get deploy -n demo -o wide", "get cm/settings -n demo -o name"];
    let gets = gets.map(|line| sandbox.transcript(line)).join("\n");
    let applies = [first, second].map(|output| sandbox.describe("apply", &output).replace(&dance(""), ""));
    assert_snapshot!("apply_and_get", format!("{}\n{gets}", applies.join("\n")));
}

#[test]
fn stdin_and_output_formats() {
    let sandbox = Sandbox::new();
    sandbox.up();
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n";
    let apply = sandbox.describe("apply -f -", &sandbox.run_with_input("apply -f -", manifest));
    let dry = sandbox.describe(
        "apply -f - --dry-run",
        &sandbox.run_with_input("apply -f - --dry-run", &manifest.replace("k: v", "k: w")),
    );
    assert_snapshot!("apply_stdin", [apply, dry].join("\n"));
    let json = sandbox.run("get configmap a -o json").stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["data"]["k"], "v");
    assert!(json["metadata"].get("managedFields").is_none());
    let yaml = String::from_utf8(sandbox.run("get cm a -o yaml").stdout).unwrap();
    assert!(yaml.starts_with("---\napiVersion: v1\ndata:\n  k: v\nkind: ConfigMap\n"), "{yaml}");
}

#[test]
fn several_kinds_and_names_are_shown_and_deleted() {
    let sandbox = Sandbox::new();
    sandbox.up();
    let map = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: kube-public, labels: {{app: {name}}}}}\n"
        )
    };
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: kube-public}\n";
    let text = format!("{}{}{}{secret}", map("a"), map("b"), map("c"));
    assert!(sandbox.run_with_input("apply -f -", &text).status.success());
    let lines = [
        "get secrets,priorityclasses -n kube-public",
        "get cm a b none -n kube-public",
        "get cm/a secret/a -n kube-public -o name",
        "get cm,secret a -n kube-public -o name",
        "get cm,unicorns",
        "get cm,secret --watch",
        "get cm/a b",
        "get deploy,svc -n kube-public",
        "delete cm,secret -l app=b -n kube-public",
        "delete cm/a secret/a -n kube-public",
        "delete secret --all -n kube-public",
    ];
    assert_snapshot!("several_kinds", lines.map(|line| sandbox.transcript(line)).join("\n"));
    let list = sandbox.run("get cm,secret c -n kube-public -o json").stdout;
    let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
    assert_eq!((list["kind"].as_str(), list["items"].as_array().map(Vec::len)), (Some("List"), Some(1)));
}

#[test]
fn mistakes_are_explained() {
    let sandbox = Sandbox::new();
    let before = sandbox.transcript("get pods");
    sandbox.up();
    sandbox.write("bad.yaml", "apiVersion: v1\nkind: Pod\n---\nkind: ConfigMap\nmetadata: {name: a}\n");
    sandbox.write("unknown.yaml", "apiVersion: example.com/v1\nkind: Dance\nmetadata: {name: a}\n");
    sandbox.write("syntax.yaml", "apiVersion: v1\nkind: [Pod\n");
    sandbox.write("strict.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndatta: {}\n");
    let lines = [
        "get unicorns",
        "get pods",
        "get configmaps -l app=web",
        "get pod nobody",
        "apply -f none.yaml",
        "apply -f bad.yaml -f syntax.yaml",
        "apply -f unknown.yaml",
        "apply -f strict.yaml",
    ];
    let lines = lines.map(|line| sandbox.transcript(line)).join("\n");
    assert!(sandbox.run("down").status.success());
    let after = sandbox.transcript("get pods");
    assert_snapshot!("mistakes", format!("{before}\n{lines}\n{after}"));
}

#[test]
fn a_watch_shows_changes_as_they_happen() {
    let sandbox = Sandbox::new();
    sandbox.up();
    applied(&sandbox, "objects.yaml");
    let mut watch = sandbox.start("get dances -n demo -w");
    let mut lines = BufReader::new(watch.stdout()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "NAME    DANCERS   TEMPO");
    assert_eq!(lines.next().unwrap(), "ronde   3         slow");
    applied(&sandbox, "more-dancers.yaml");
    assert_eq!(lines.next().unwrap(), "ronde   5         quick");
}

#[test]
fn output_that_does_not_arrive_is_a_failure() {
    let sandbox = Sandbox::new();
    let mut all = Vec::new();
    for line in ["--help", "status", "completion bash"] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = sandbox.command(line).stdout(full).output().unwrap();
        all.push(sandbox.describe(line, &output));
    }
    assert_snapshot!("output_lost", all.join("\n"));
}
