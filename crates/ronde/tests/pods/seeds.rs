//! The seeds as they are printed: manifests and command lines out of their files, what appears compared with what they
//! print, in images with the names that they give.
//!
//! `make e2e-image` builds the images and loads them into the store of the cluster that `RONDE_SEEDS_KUBECONFIG` names. One
//! seed after the other uses the namespace `default`, as their readers do. `make test` has small images, whose programs
//! say what they were told: that shows the wiring within seconds.

use std::path::Path;

use ronde_sim::skip;

use crate::{
    client::{Home, Program, variable},
    cluster::Cluster,
    directory, is_there,
    sandbox::Sandbox,
    transcript,
};

#[test]
fn seed_000() {
    check("seed_000", &["seeds"]);
}

#[test]
fn seed_001() {
    check("seed_001", &["seeds", "helm", "ssh-keygen"]);
}

#[test]
fn seed_002() {
    check("seed_002", &["seeds"]);
}

#[test]
fn seed_003() {
    if variable("RONDE_SEEDS_FRAMEWORK").is_some_and(|name| name != "tensorflow") {
        return skip("TensorFlow, whose parameter servers it is about, cannot be had here");
    }
    check("seed_003", &["seeds"]);
}

#[test]
fn chart_image() {
    check("chart_image", &["helm"]);
}

#[test]
fn small_images() {
    if !["static busybox", "seeds"].iter().all(|need| is_there(need)) || Program::find_all(&[]).is_none() {
        return;
    }
    let Some(cluster) = Cluster::start(Sandbox::new(), "--nodes 4 --cpus 4 --images pull") else { return };
    let home = Home::beside(&cluster.sandbox, "small-images", &directory().join("bin"));
    transcript::run(&home, &directory().join("seeds/small_images.transcript"));
}

#[test]
fn every_seed_is_run() {
    let names = ["chart_image", "seed_000", "seed_001", "seed_002", "seed_003", "small_images"];
    assert_eq!(transcript::names_in(&directory().join("seeds")), names);
}

fn check(name: &str, needs: &[&str]) {
    let Some(kubeconfig) = variable("RONDE_SEEDS_KUBECONFIG") else {
        return skip("the seeds' images are not stored here (`make e2e-image` builds them and runs this test)");
    };
    if needs.iter().all(|need| is_there(need)) && Program::find_all(&[]).is_some() {
        let home = Home::in_default(Path::new(&kubeconfig), &directory().join("bin"));
        transcript::run(&home, &directory().join(format!("seeds/{name}.transcript")));
    }
}
