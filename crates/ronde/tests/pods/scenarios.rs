//! Jobs, policies, queues and gangs, the same on both engines: on `ronde up`, or on the cluster that
//! `RONDE_SCENARIOS_KUBECONFIG` names, where `ronde operator` runs (`make e2e`). Nobody looks into a pod here, so that
//! simulated nodes will do.

use std::path::Path;

use crate::{
    client::{Home, Program, variable},
    cluster::Cluster,
    directory,
    sandbox::Sandbox,
    transcript,
};

#[test]
fn gang() {
    check("gang");
}

#[test]
fn policies() {
    check("policies");
}

#[test]
fn queues() {
    check("queues");
}

#[test]
fn every_scenario_is_run() {
    assert_eq!(transcript::names_in(&directory().join("scenarios")), ["gang", "policies", "queues"]);
}

fn check(name: &str) {
    if Program::find_all(&[]).is_none() {
        return;
    }
    let (bin, file) = (directory().join("bin"), directory().join(format!("scenarios/{name}.transcript")));
    if let Some(kubeconfig) = variable("RONDE_SCENARIOS_KUBECONFIG") {
        transcript::run(&Home::borrow(Path::new(&kubeconfig), name, &bin), &file);
    } else if let Some(cluster) = Cluster::start(Sandbox::new(), "--nodes 3 --cpus 2") {
        transcript::run(&Home::beside(&cluster.sandbox, name, &bin), &file);
    }
}
