//! `kubectl ronde`: the program under the name by which kubectl finds it, through the real kubectl where it is installed; and
//! what `make krew` makes of it.

use std::{
    os::unix::fs::symlink,
    process::{Command, Output},
};

use fs_err as fs;
use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::Sandbox;

fn install(sandbox: &Sandbox) {
    fs::create_dir(sandbox.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_ronde"), sandbox.path("bin/kubectl-ronde")).unwrap();
}

/// Runs the plugin as kubectl does: with the words behind its own name.
fn see(sandbox: &Sandbox, line: &str) -> String {
    let output = sandbox.command_of(sandbox.path("bin/kubectl-ronde").to_str().unwrap(), line).output().unwrap();
    sandbox.describe(line, &output).replacen("$ ronde", "$ kubectl ronde", 1)
}

#[test]
fn the_plugin_names_itself_as_it_was_called() {
    let sandbox = Sandbox::new();
    install(&sandbox);
    let lines = ["--version", "job suspend --help", "dance", "list", "-n"];
    assert_snapshot!("plugin", lines.map(|line| see(&sandbox, line)).join("\n"));
}

#[test]
fn kubectl_finds_it_and_its_flags_stand_anywhere() {
    let Some(kubectl) = ronde_sim::program("kubectl") else { return };
    let sandbox = Sandbox::new();
    install(&sandbox);
    sandbox.up();
    fs::rename(sandbox.path(".kube/config"), sandbox.path("elsewhere")).unwrap();
    let run = |line: &str| -> Output {
        let mut command = sandbox.command_of(kubectl.to_str().unwrap(), line);
        command.env("PATH", format!("{}:/usr/bin:/bin", sandbox.path("bin").display())).output().unwrap()
    };
    let context = "--context ronde";
    for line in [
        &format!("ronde --kubeconfig elsewhere {context} get serviceaccounts -o name -n kube-public"),
        &format!("ronde get serviceaccounts -o name --namespace kube-public {context} --kubeconfig elsewhere"),
        &format!("ronde -n kube-public --kubeconfig=elsewhere {context} get namespaces -o name"),
    ] {
        let output = run(line);
        assert!(output.status.success(), "{}", sandbox.describe(line, &output));
    }
    let output = run("ronde --kubeconfig elsewhere --context other get namespaces");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("other"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_manifest_for_krew_is_true() {
    let Some(python) = ronde_sim::program("python3") else { return };
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("program"), smallest_program()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/krew.py");
    let pack = |url: &str| {
        let mut command = sandbox.command_of(python.to_str().unwrap(), script);
        command.args(["program", "krew", url]).output().unwrap()
    };
    let refused = pack("");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("make krew URL="), "{refused:?}");
    let packed = pack("https://example.test/releases/");
    assert!(packed.status.success(), "{}", sandbox.describe("krew", &packed));

    let manifest: Value = serde_saphyr::from_str(&sandbox.read("krew/ronde.yaml")).unwrap();
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    assert_eq!(text("/apiVersion"), "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!((text("/kind"), text("/metadata/name")), ("Plugin".to_owned(), "ronde".to_owned()));
    assert_eq!(text("/spec/version"), concat!("v", env!("CARGO_PKG_VERSION")));
    // Krew's own rule for its table.
    let short = text("/spec/shortDescription");
    assert!((1..=50).contains(&short.len()) && !short.ends_with('.'), "{short}");
    let archive = "krew/ronde-linux-amd64.tar.gz";
    assert_eq!(text("/spec/platforms/0/uri"), "https://example.test/releases/ronde-linux-amd64.tar.gz");
    assert_eq!(text("/spec/platforms/0/selector/matchLabels/arch"), "amd64");
    let digest = answer(sandbox.command_of("sha256sum", archive));
    assert_eq!(text("/spec/platforms/0/sha256"), digest.split(' ').next().unwrap());
    let listed = answer(sandbox.command_of("tar", &format!("-tzf {archive}")));
    assert_eq!(listed, "LICENSE\nkubectl-ronde\n");
    assert_eq!(text("/spec/platforms/0/bin"), "kubectl-ronde");
}

fn answer(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The head of a static program for amd64; nobody starts it.
fn smallest_program() -> [u8; 64] {
    let mut head = [0; 64];
    head[..5].copy_from_slice(b"\x7fELF\x02");
    head[18] = 62;
    head
}
