//! What `up` does to kubeconfigs that exist, and refuses to do.

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, mode};

const KIND: &str = "\
apiVersion: v1
clusters:
- cluster:
    server: https://127.0.0.1:39999 # the big one
  name: kind-dev
contexts:
- context:
    cluster: kind-dev
    user: kind-dev
  name: kind-dev
current-context: kind-dev
kind: Config
preferences: {}
users:
- name: kind-dev
  user: {}
";

#[test]
fn the_context_is_added_selected_and_taken_back() {
    let sandbox = Sandbox::new();
    sandbox.write(".kube/config", KIND);
    let up = sandbox.transcript("up --detach --listen 127.0.0.1:0");
    let text = sandbox.read(".kube/config");
    assert!(text.contains("current-context: ronde") && text.contains("# the big one"), "{text}");
    let down = sandbox.transcript("down");
    assert_snapshot!("previous_context", [up, down].join("\n"));
    assert_eq!(sandbox.read(".kube/config"), KIND);
}

#[test]
fn a_file_that_is_not_ours_to_change_stays_as_it_is() {
    let mut shown = Vec::new();
    for (name, text) in [
        ("broken", "clusters: [\n"),
        ("another kind of file", "kind: Pod\n"),
        ("an entry of that name", "clusters:\n- name: ronde\n  cluster: {server: https://example.com}\n"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write(".kube/config", text);
        shown.push(format!("# {name}\n{}", sandbox.transcript("up --listen 127.0.0.1:0")));
        assert_eq!(sandbox.read(".kube/config"), text, "{name}");
        assert!(!sandbox.path("data").exists(), "{name}: nothing was started");
    }
    assert_snapshot!("kubeconfig_refused", shown.join("\n"));
}

#[test]
fn the_variable_and_the_option_choose_the_file() {
    let sandbox = Sandbox::new();
    sandbox.write("second", KIND);
    let list = std::env::join_paths([sandbox.path("first"), sandbox.path("second")]).unwrap();
    let up = sandbox.command("up --detach --listen 127.0.0.1:0").env("KUBECONFIG", &list).status().unwrap();
    assert!(up.success());
    assert!(sandbox.read("second").contains("name: ronde"), "the first that exists");
    assert_eq!(sandbox.read("first"), "(none)");
    assert!(sandbox.run("down").status.success(), "down needs no variable to find it again");
    assert_eq!(sandbox.read("second"), KIND);

    let up = sandbox.command("up --detach --listen 127.0.0.1:0 --kubeconfig own").env("KUBECONFIG", &list).status();
    assert!(up.unwrap().success());
    assert!(sandbox.read("own").contains("name: ronde"), "the option wins");
    assert_eq!(sandbox.read("second"), KIND);
}

#[test]
fn root_leaves_the_file_to_its_owner() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    if !ronde_sim::is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.write(".kube/config", KIND);
    chown(&path, Some(12_345), Some(12_346)).unwrap();
    sandbox.up();
    let metadata = fs_err::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), metadata.gid(), mode(&path)), (12_345, 12_346, 0o600));
}

#[test]
fn a_kubeconfig_broken_while_running_is_not_touched_and_down_says_so() {
    let sandbox = Sandbox::new();
    sandbox.up();
    sandbox.write(".kube/config", "clusters: [\n");
    assert_snapshot!("kubeconfig_broken_at_down", sandbox.transcript("down"));
    assert_eq!(sandbox.read(".kube/config"), "clusters: [\n");
    assert_eq!(sandbox.status()["running"], false, "it was stopped all the same");
    sandbox.write(".kube/config", KIND);
    assert!(sandbox.run("down").status.success(), "once repaired, down finds nothing more to do");
}
