//! Data directories of other versions: older ones are opened with everything in them, newer ones refused.

use std::path::PathBuf;

use fs_err as fs;
use insta::assert_snapshot;

use crate::sandbox::Sandbox;

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cli/golden")
}

/// A data directory as an earlier version left it.
fn old_data() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("data")).unwrap();
    for file in ["format", "store.redb"] {
        fs::copy(golden().join(file), sandbox.path("data").join(file)).unwrap();
    }
    sandbox
}

#[test]
fn a_data_directory_of_an_earlier_version_is_opened_with_everything_in_it() {
    let sandbox = old_data();
    sandbox.up();
    let versions = fs::read_to_string(golden().join("versions.txt")).unwrap();
    assert_eq!(versions.lines().count(), 4);
    for line in versions.lines() {
        let (object, version) = line.split_once(' ').unwrap();
        let got = sandbox.run(&format!("get {object} -n team-a -o json"));
        assert!(got.status.success(), "{}", sandbox.describe("get", &got));
        let value: serde_json::Value = serde_json::from_slice(&got.stdout).unwrap();
        assert_eq!(value["metadata"]["resourceVersion"], version, "{object}");
    }
    let text = sandbox.run("get configmap/settings -n team-a -o json");
    let value: serde_json::Value = serde_json::from_slice(&text.stdout).unwrap();
    assert_eq!(value["data"]["text"], "two\nlines, \"quoted\" ä");
    // What is written next comes after all of it.
    assert!(sandbox.run("delete configmap/settings -n team-a").status.success());
}

#[test]
fn a_data_directory_of_a_newer_version_is_refused() {
    let sandbox = old_data();
    fs::write(sandbox.path("data/format"), "2").unwrap();
    let before = fs::read(sandbox.path("data/store.redb")).unwrap();
    let lines = ["up --listen 127.0.0.1:0", "backup file", "status"].map(|line| sandbox.transcript(line));
    assert_snapshot!("newer_data_dir", lines.join("\n"));
    assert_eq!(fs::read(sandbox.path("data/store.redb")).unwrap(), before);
}
