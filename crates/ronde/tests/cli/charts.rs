//! `ronde install` and `ronde uninstall` where they cannot work, and what they hand on to Helm; that the chart works is
//! told by the tests of pods.

use std::{
    fs::Permissions,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    process::{Output, Stdio},
};

use fs_err as fs;
use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn charts_need_helm_and_a_name_that_is_known() {
    let sandbox = Sandbox::new();
    let without_helm = |line: &str| {
        let output = sandbox.command(line).env("PATH", "/nowhere").output().unwrap();
        sandbox.describe(line, &output)
    };
    let all = ["install horovod mnist", "uninstall mnist", "install mysql data"];
    assert_snapshot!("charts_refused", all.map(without_helm).join("\n"));
}

/// A Helm that only says what it was told.
const TALKATIVE_HELM: &str = r#"#!/bin/bash
if [[ $1 == version ]]; then echo v4.0.0; exit; fi
echo "$1 $2 $3 CHART ${*:5}"
[[ $* != *'--values -'* ]] || cat
"#;

/// Runs `ronde` with that Helm, and says something to it.
fn with_helm(sandbox: &Sandbox, line: &str, said: &str) -> Output {
    let helm = sandbox.write("bin/helm", TALKATIVE_HELM);
    fs::set_permissions(&helm, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", helm.parent().unwrap().display());
    let mut child = sandbox.command(line).env("PATH", path).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn values_from_stdin_reach_helm() {
    let sandbox = Sandbox::new();
    let line = "install horovod mnist --values -";
    let output = with_helm(&sandbox, line, "worker: {number: 2}\n");
    assert_snapshot!("charts_from_stdin", sandbox.describe(line, &output));
}
