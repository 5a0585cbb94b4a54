//! `ronde demo` as far as it needs no Python: what is missing, and Ctrl-C. The whole of it is `make demo`, which CI runs.

use std::{
    fs::Permissions,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
};

use fs_err as fs;
use insta::assert_snapshot;

use crate::sandbox::{Sandbox, kill};

/// Writes a program that answers as Python does about its packages, and hangs whatever else it is asked.
fn write_python(sandbox: &Sandbox, missing: &str) {
    let path = sandbox.path("python/python3");
    let answer = format!(
        r#"{{"executable": "{}", "folders": ["{}"], "missing": [{missing}]}}"#,
        path.display(),
        path.parent().unwrap().display()
    );
    sandbox.write("python/python3", &format!("#!/bin/sh\n[ \"$1\" = -c ] || exec sleep 1000\necho '{answer}'\n"));
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_the_demo_lacks_is_named_before_anything_starts() {
    let sandbox = Sandbox::new();
    let mut all = vec![sandbox.transcript("demo --picture nowhere/demo.svg")];
    all.push(sandbox.transcript("demo --python ./nope"));
    all.push(sandbox.transcript("demo --python false"));
    write_python(&sandbox, r#""NumPy""#);
    all.push(sandbox.transcript("demo --python ./python/python3"));
    write_python(&sandbox, r#""NumPy", "ronde""#);
    all.push(sandbox.transcript("demo --python ./python/python3"));
    write_python(&sandbox, "");
    let line = "demo --python ./python/python3";
    let output = sandbox.command(line).env("TMPDIR", sandbox.path("full")).output().unwrap();
    all.push(sandbox.describe(line, &output));
    assert_snapshot!("demo_failures", all.join("\n"));
}

#[test]
fn ctrl_c_ends_the_demo_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    write_python(&sandbox, "");
    fs::create_dir(sandbox.path("tmp")).unwrap();
    let mut command = sandbox.command("demo --python ./python/python3");
    let mut child = command.env("TMPDIR", sandbox.path("tmp")).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let submitted = lines.find(|line| line.as_ref().unwrap().contains("trainingjob.kai.alibabacloud.com/demo created"));
    assert!(submitted.is_some(), "{:?}", child.wait_with_output());

    kill(child.id(), "INT");
    kill(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr)), (Some(130), "".into()));
    assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0);
    assert!(!fs::exists(sandbox.path("demo.svg")).unwrap());
    let instances = String::from_utf8(sandbox.run("status --all").stdout).unwrap();
    assert!(!instances.contains(sandbox.path("tmp").to_str().unwrap()), "{instances}");
}
