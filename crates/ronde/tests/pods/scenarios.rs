//! Jobs, policies, queues, gangs and elastic jobs, the same on both engines: on `ronde up`, or on the cluster that
//! `RONDE_SCENARIOS_KUBECONFIG` names, where `ronde operator` runs (`make e2e`). Nobody looks into a pod here, so that
//! simulated nodes will do.

use std::path::Path;

use ronde_sim::skip;

use crate::{
    client::{Home, Program, variable},
    cluster::Cluster,
    directory, is_there,
    sandbox::Sandbox,
    transcript,
    values::CHANGES,
};

#[test]
fn chart() {
    check_chart("chart");
}

#[test]
fn chart_host_network() {
    check_chart("chart_host_network");
}

#[test]
fn chart_of_version_1() {
    if variable("RONDE_SCENARIOS_KUBECONFIG").is_none() {
        return skip("what Kubernetes itself allows to be changed is asked on a real one (`make e2e` runs this test)");
    }
    if is_there("helm") {
        check("chart_of_version_1");
    }
}

#[test]
fn any_change_of_the_chart_is_an_upgrade() {
    let Some(kubeconfig) = variable("RONDE_SCENARIOS_KUBECONFIG") else {
        return skip("what Kubernetes itself allows to be changed is asked on a real one (`make e2e` runs this test)");
    };
    if !is_there("helm") {
        return;
    }
    let home = Home::borrow(Path::new(&kubeconfig), "chart-upgrades", &directory().join("bin"));
    let values = directory().join("../chart/gpu.yaml");
    // A mount without its volume is nothing that Kubernetes takes.
    let volume = r#"--set-json 'volumes=[{"name":"data","emptyDir":{}}]'"#;
    let chart = format!("mnist $CHARTS/horovod --values {} {volume}", values.display());
    home.succeed(&format!("helm install {chart}"));
    for change in CHANGES {
        let launcher = if change.is_for_agent { "agent" } else { "ssh" };
        let change = change.set.replace('\'', r"'\''");
        home.succeed(&format!("helm upgrade {chart} --set launcher={launcher} --set-json '{change}'"));
    }
    home.succeed("helm uninstall mnist --wait");
}

#[test]
fn changes() {
    check("changes");
}

#[test]
fn defragment() {
    check("defragment");
}

#[test]
fn ends() {
    check("ends");
}

#[test]
fn faults() {
    check("faults");
}

#[test]
fn flows() {
    check("flows");
}

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
fn rights() {
    check("rights");
}

#[test]
fn shares() {
    check("shares");
}

#[test]
fn training_job() {
    if variable("RONDE_SCENARIOS_KUBECONFIG").is_none() {
        return skip("on nodes of our own workers leave by themselves, see seed 002 (`make e2e` runs this test)");
    }
    check("training_job");
}

#[test]
fn every_scenario_is_run() {
    assert_eq!(
        transcript::names_in(&directory().join("scenarios")),
        [
            "changes",
            "chart",
            "chart_host_network",
            "chart_of_version_1",
            "defragment",
            "ends",
            "faults",
            "flows",
            "gang",
            "policies",
            "queues",
            "rights",
            "shares",
            "training_job"
        ]
    );
}

/// On our own nodes the workers run, and with them their ssh servers.
fn check_chart(name: &str) {
    let has_own_nodes = variable("RONDE_SCENARIOS_KUBECONFIG").is_none();
    let needs: &[&str] = if has_own_nodes { &["helm", "root", "/usr/sbin/sshd", "ssh"] } else { &["helm"] };
    if needs.iter().all(|need| is_there(need)) {
        check(name);
    }
}

fn check(name: &str) {
    if Program::find_all(&[]).is_none() {
        return;
    }
    let (bin, file) = (directory().join("bin"), directory().join(format!("scenarios/{name}.transcript")));
    let name = &name.replace('_', "-");
    if let Some(kubeconfig) = variable("RONDE_SCENARIOS_KUBECONFIG") {
        transcript::run(&Home::borrow(Path::new(&kubeconfig), name, &bin), &file);
    } else if let Some(cluster) = Cluster::start(Sandbox::new(), "--nodes 3 --cpus 2") {
        transcript::run(&Home::beside(&cluster.sandbox, name, &bin), &file);
    }
}
