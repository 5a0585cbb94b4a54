//! Our own kinds, on our own server: the rules that are checked in process, in our own words.
//!
//! A transcript in `own/` is as those in `transcripts/`, only that no other server answers so.

use std::path::{Path, PathBuf};

use ronde_sim::skip;

use crate::{
    client::{Home, Program, variable},
    transcript,
};

#[test]
fn jobs() {
    check("jobs");
}

#[test]
fn jobs_refused() {
    check("jobs_refused");
}

#[test]
fn queues() {
    check("queues");
}

#[test]
fn every_transcript_is_run() {
    assert_eq!(transcript::names_in(&directory()), ["jobs", "jobs_refused", "queues"]);
}

fn check(name: &str) {
    if variable("RONDE_CLIENTS_KUBECONFIG").is_some() {
        skip("another server does not have our rules");
        return;
    }
    let Some(home) = Home::new(&format!("own-{}", name.replace('_', "-")), &[Program::Kubectl]) else { return };
    transcript::run(&home, &directory().join(format!("{name}.transcript")));
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/own")
}
