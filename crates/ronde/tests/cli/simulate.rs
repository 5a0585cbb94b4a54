//! `ronde simulate` without a cluster: what it says, and what it refuses.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

fn example(name: &str) -> String {
    format!("{}/../../examples/simulate/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs commands, with the files of the examples by their names alone.
fn transcript(sandbox: &Sandbox, lines: &[String]) -> String {
    let all: Vec<String> = lines.iter().map(|line| sandbox.transcript(line)).collect();
    all.join("\n").replace(&example(""), "")
}

#[test]
fn a_cluster_is_simulated_and_compared() {
    let sandbox = Sandbox::new();
    let jobs = example("jobs.csv");
    let lines = [
        "simulate --help".to_owned(),
        format!("simulate --nodes 4x8gpu --jobs {jobs}"),
        format!("simulate --nodes gpu-a=3x8gpu --jobs {jobs} --what-if elastic=auto"),
        format!("simulate --nodes 1x8gpu --jobs {jobs} --until 30m"),
        format!("simulate --nodes 2x8gpu --jobs {} -o json", example("helios.csv")),
        format!("simulate -f {}", example("cluster.yaml")),
        format!("simulate -f {} --jobs {} -o moves", example("openb_node_list.csv"), example("openb_pod_list.csv")),
    ];
    assert_snapshot!("simulate", transcript(&sandbox, &lines));
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let sandbox = Sandbox::new();
    let jobs = example("jobs.csv");
    let lines = [
        "simulate --nodes 4x8gpu".to_owned(),
        "simulate --nodes 4xapples --generate 10".to_owned(),
        "simulate --nodes 4x8gpu --nodes 2x4gpu --generate 10".to_owned(),
        "simulate --nodes 4x64cpu --generate 10".to_owned(),
        "simulate --nodes 4x8gpu --jobs nowhere.csv".to_owned(),
        format!("simulate --nodes 4x8gpu --jobs {}", example("openb_node_list.csv")),
        format!("simulate --nodes 4x8gpu --jobs {jobs} --queue team-a:colour=red"),
        format!("simulate --nodes 4x8gpu --jobs {jobs} --what-if pray"),
        format!("simulate --nodes 4x8gpu --jobs {jobs} --fault pray"),
        format!("simulate --nodes 4x8gpu --jobs {jobs} --generate 10"),
        format!("simulate --nodes 4x8gpu --jobs {jobs} --until soon"),
    ];
    assert_snapshot!("simulate_refused", transcript(&sandbox, &lines));
}
