//! `backup` and `restore`: while it runs and while it does not, into an empty directory and into others.

use fs_err as fs;
use insta::assert_snapshot;

use crate::sandbox::{Sandbox, mode};

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, namespace: default}\ndata: {a: b}\n";

/// An instance with an object.
fn filled() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.up();
    let applied = sandbox.run_with_input("apply -f -", CONFIG_MAP);
    assert!(applied.status.success(), "{}", sandbox.describe("apply", &applied));
    sandbox
}

fn object(sandbox: &Sandbox) -> String {
    let got = sandbox.run("get configmap kept -o json");
    assert!(got.status.success(), "{}", sandbox.describe("get", &got));
    String::from_utf8(got.stdout).unwrap()
}

/// What clients rely on: the certificate, the tokens, and who a token is of.
fn identity(sandbox: &Sandbox, data_dir: &str) -> Vec<String> {
    ["ca.crt", "ca.key", "admin.token", "tokens.key"].map(|file| sandbox.read(&format!("{data_dir}/{file}"))).to_vec()
}

#[test]
fn a_backup_of_a_running_instance_is_the_same_cluster_elsewhere() {
    let sandbox = filled();
    let before = object(&sandbox);
    let endpoint = sandbox.status()["endpoint"].as_str().unwrap().trim_start_matches("https://").to_owned();
    let backup = sandbox.transcript("backup cluster.backup");
    assert_eq!(mode(&sandbox.path("cluster.backup")), 0o600);
    let kubeconfig = sandbox.read(".kube/config");
    let papers = identity(&sandbox, "data");
    assert!(sandbox.run("down --delete-data").status.success());

    let restore = sandbox.transcript("restore cluster.backup");
    assert_eq!(identity(&sandbox, "data"), papers);
    assert_eq!(mode(&sandbox.path("data")), 0o700);
    assert_eq!(mode(&sandbox.path("data/ca.key")), 0o600);
    let up = sandbox.run(&format!("up --detach --listen {endpoint}"));
    assert!(up.status.success(), "{}", sandbox.describe("up", &up));
    // The kubeconfig of before goes on working, and the object is the same to its last byte.
    sandbox.write("old", &kubeconfig);
    let got = sandbox.run("get configmap kept -o json --kubeconfig old");
    assert_eq!(String::from_utf8_lossy(&got.stdout), before);
    let count = regex::Regex::new(r"\d+ objects(, \d+\.\d MiB)?").unwrap();
    assert_snapshot!("backup_and_restore", count.replace_all(&[backup, restore].join("\n"), "[N] objects"));
}

#[test]
fn a_backup_of_a_stopped_instance_is_the_same_as_of_a_running_one() {
    let sandbox = filled();
    let objects = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        text.lines().filter(|line| line.contains("\"kept\"")).map(str::to_owned).collect::<Vec<_>>()
    };
    let running = sandbox.run("backup -");
    assert!(running.status.success(), "{}", sandbox.describe("backup", &running));
    assert!(sandbox.run("down").status.success());
    let stopped = sandbox.run("backup -");
    assert!(stopped.status.success(), "{}", sandbox.describe("backup", &stopped));
    assert_eq!(objects(&running.stdout), objects(&stopped.stdout));
    assert_eq!(objects(&running.stdout).len(), 1);
    let text = String::from_utf8(stopped.stdout).unwrap();
    let restored = sandbox.run_with_input("restore - --data-dir other", &text);
    assert!(restored.status.success(), "{}", sandbox.describe("restore", &restored));
}

#[test]
fn what_cannot_be_restored_changes_nothing() {
    let sandbox = filled();
    assert!(sandbox.run("backup good").status.success());
    let good = sandbox.read("good");
    sandbox.write("cut", &good[..good.len() - 10]);
    sandbox.write("changed", &good.replace("\"kept\"", "\"kepd\""));
    sandbox.write("newer", &good.replacen("\"format\":1", "\"format\":2", 1));
    sandbox.write("manifest", CONFIG_MAP);
    fs::create_dir(sandbox.path("empty")).unwrap();
    let lines = |names: &[&str]| {
        let all = names.iter().map(|name| sandbox.transcript(&format!("restore {name} --data-dir empty")));
        all.collect::<Vec<_>>().join("\n")
    };
    let said = lines(&["cut", "changed", "newer", "manifest", "missing"]);
    assert_eq!(fs::read_dir(sandbox.path("empty")).unwrap().count(), 0);
    let filled = sandbox.transcript("restore good");
    let nothing = sandbox.transcript("backup none --data-dir empty");
    let nowhere = sandbox.transcript("backup no/where");
    assert!(!sandbox.path("none").exists());
    let strays = fs::read_dir(sandbox.path("")).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        [".ronde-restore", ".tmp"].iter().any(|stray| name.to_string_lossy().starts_with(stray))
    });
    assert_eq!(strays.count(), 0, "nothing half made is left");
    let after = regex::Regex::new(r"after line \d+").unwrap();
    let all = [said, filled, nothing, nowhere].join("\n");
    assert_snapshot!("backup_refused", after.replace_all(&all, "after line [N]"));
    let restored = sandbox.run("restore good --data-dir empty");
    assert!(restored.status.success(), "{}", sandbox.describe("restore", &restored));
}

/// The objects of all have secrets among them.
#[test]
fn only_the_administrator_gets_a_backup() {
    let sandbox = filled();
    let credential = sandbox.read("data/admin.credential");
    let token = sandbox.read("data/admin.token");
    sandbox.write("data/admin.credential", &credential.replace(token.trim(), "another"));
    let refused = sandbox.run("backup stolen");
    assert_eq!(refused.status.code(), Some(2), "{}", sandbox.describe("backup", &refused));
    assert!(!sandbox.path("stolen").exists());
}
