//! The help of every verb, and what happens to arguments that make no sense.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn every_verb_explains_itself() {
    let sandbox = Sandbox::new();
    let all = ["--help", "up --help", "down --help", "status --help", "apply --help", "get --help"];
    assert_snapshot!("help", all.map(|line| sandbox.transcript(line)).join("\n"));
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let sandbox = Sandbox::new();
    let all = [
        "",
        "dance",
        "up --listen 0.0.0.0:6443",
        "up --listen here",
        "apply",
        "get",
        "get pods -o xml",
        "get pods web -A",
        "status -o yaml",
    ];
    assert_snapshot!("usage", all.map(|line| sandbox.transcript(line)).join("\n"));
}

#[test]
fn the_version_is_printed() {
    let output = Sandbox::new().run("--version");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("ronde {}\n", env!("CARGO_PKG_VERSION")));
}
