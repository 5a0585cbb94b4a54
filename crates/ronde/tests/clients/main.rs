//! kubectl and Helm against the real `ronde up` process: what a user types and what they see.
//!
//! Each transcript in `transcripts/` is a script of commands with everything the real kube-apiserver made the client
//! print; ours has to make it print the same, but for sentences that are a server's own (`[..]`). Every test has its own
//! home and its own instance. What takes two processes at a time (watches, waits) is in `live`. Nothing here talks HTTP:
//! that is the conformance suite.
//!
//! Against another server: `RONDE_CLIENTS_KUBECONFIG=FILE cargo test -p ronde --test clients -- --test-threads=1`;
//! with `RONDE_CLIENTS_RECORD=1` in addition, what differs is written down as the new expectation.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

#[expect(dead_code, reason = "the tests of pods use the rest of it")]
mod client;
mod expectation;
mod live;
mod own;
#[path = "../cli/sandbox.rs"]
#[expect(dead_code, reason = "the tests of the command use the rest of it")]
mod sandbox;
mod transcript;

use crate::client::Program;

/// Makes one test of each transcript, and one that finds those which nobody runs.
macro_rules! transcripts {
    ($($name:ident: $($program:ident)+;)+) => {
        $(
            #[test]
            fn $name() {
                transcript::check(stringify!($name), &[$(Program::$program),+]);
            }
        )+

        #[test]
        fn every_transcript_is_run() {
            assert_eq!(transcript::names(), [$(stringify!($name)),+]);
        }
    };
}

transcripts! {
    kubectl_access: Kubectl;
    kubectl_apply: Kubectl;
    kubectl_apply_server_side: Kubectl;
    kubectl_change: Kubectl;
    kubectl_create: Kubectl;
    kubectl_custom: Kubectl;
    kubectl_custom_rules: Kubectl;
    kubectl_delete: Kubectl;
    kubectl_describe: Kubectl;
    kubectl_discovery: Kubectl;
    kubectl_get: Kubectl;
    kubectl_mistakes: Kubectl;
    kubectl_nodes: Kubectl;
    kubectl_rollout: Kubectl;
    helm_hooks: Helm;
    helm_release: Helm Kubectl;
}
