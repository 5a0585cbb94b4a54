//! `ronde image`: what it says of images that are not there, of names that make no sense, and of registries that do not
//! answer. What pulls, loads and runs is in the tests of pods.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn every_verb_of_images_explains_itself() {
    let sandbox = Sandbox::new();
    let all = ["image --help", "image list --help", "image pull --help", "image load --help", "image save --help"];
    let all = all.into_iter().chain(["image remove --help", "image prune --help", "image inspect --help"]);
    assert_snapshot!("help_images", all.map(|line| sandbox.transcript(line)).collect::<Vec<_>>().join("\n"));
}

#[test]
fn there_are_no_images_at_first() {
    let sandbox = Sandbox::new();
    let all =
        ["image list", "image list -o name", "image list -o json", "image ls -q", "image prune", "image prune -q"];
    assert_snapshot!("images_none", all.map(|line| sandbox.transcript(line)).join("\n"));
}

#[test]
fn images_that_cannot_be_had_are_told() {
    let sandbox = Sandbox::new();
    sandbox.write("registries/broken.test/hosts.toml", "server = \n");
    sandbox.write("text.tar", "this is no archive");
    let all = [
        "image pull",
        "image pull Team/App",
        "image pull 127.0.0.1:1/team/app:1",
        "image pull -q 127.0.0.1:1/team/app:1",
        "image pull --registries registries team/app",
        "image load none.tar",
        "image load text.tar",
        "image save none none.tar",
        "image remove none",
        "image inspect none",
        "image inspect Not:A:Name",
        "image list -o xml",
    ];
    assert_snapshot!("images_refused", all.map(|line| sandbox.transcript(line)).join("\n"));
    assert!(!sandbox.path("none.tar").exists());
}
