//! The same without root: an ordinary user's machine lives in a user namespace.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use fs_err as fs;
use ronde_sim::{is_root, program, skip, wait_until};

use crate::{
    client::{Home, Program},
    directory, has_static_busybox, play_in,
    sandbox::{LIMIT, Sandbox},
};

/// `nobody`, whom every machine has.
const USER: u32 = 65534;

/// What needs no more than one user in a pod, and no control groups.
const TRANSCRIPTS: [&str; 7] = ["claims", "env", "exec", "init_containers", "logs", "probes", "service"];

#[test]
fn an_ordinary_user_does_what_root_does() {
    let sandbox = Sandbox::new();
    let Some((_user, _)) = User::up(&sandbox) else { return };
    if program("script").is_some() {
        TRANSCRIPTS.iter().for_each(|name| play_in(&sandbox, name));
    }
}

#[test]
fn an_ordinary_user_has_pods_that_find_each_other() {
    let sandbox = Sandbox::new();
    let Some((user, said)) = User::up(&sandbox) else { return };
    assert_eq!(said.contains("no link to the machine's network"), !is_link_possible(), "{said}");
    let home = Home::of(&sandbox, &directory().join("bin"));
    let manifest = directory().join("two_pods.yaml");
    home.succeed(&format!("kubectl apply -f {}", manifest.display()));
    home.succeed("kubectl wait --for=condition=Ready pod/server --timeout 120s");
    home.succeed("kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/client --timeout 120s");
    assert_eq!(home.succeed("kubectl logs client"), "server\n");
    assert_eq!(
        home.succeed("kubectl exec server -- sh -c 'id -u; touch /usr/of-a-pod && echo written'"),
        "0\nwritten\n"
    );
    assert!(!fs::exists("/usr/of-a-pod").unwrap(), "nothing reaches the machine");
    user.ronde("down --quiet");
    assert_eq!(home.run("pgrep -cf 'http.server 18080$'").stdout, b"0\n", "nothing runs");
}

#[test]
fn an_ordinary_user_has_pods_from_images() {
    if !has_static_busybox() {
        return;
    }
    let sandbox = Sandbox::new();
    let Some((user, _)) = User::up(&sandbox) else { return };
    let home = Home::of(&sandbox, &directory().join("bin"));
    home.succeed("busybox-image box.tar && chmod 644 box.tar");
    user.ronde(&format!("image load {}", sandbox.path("box.tar").display()));
    home.succeed("kubectl run box --image test/box:1 --restart Never --overrides '{\"spec\":{\"securityContext\":{\"runAsUser\":0}}}' -- 'ls; ls /usr || true'");
    home.succeed("kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/box --timeout 120s");
    let logs = home.succeed("kubectl logs box");
    assert!(logs.contains("added\n") && !logs.contains("removed") && logs.contains("/usr: No such file"), "{logs}");
}

#[test]
fn an_ordinary_user_who_deletes_the_data_directory_has_nothing_left() {
    let sandbox = Sandbox::new();
    let Some((user, _)) = User::up(&sandbox) else { return };
    let home = Home::of(&sandbox, &directory().join("bin"));
    home.succeed("kubectl run sleeper --image none -- sleep 86420");
    home.succeed("kubectl wait --for=condition=Ready pod/sleeper --timeout 120s");
    let data_dir = sandbox.path("data");
    let listed = || user.instances(data_dir.to_str().unwrap());
    assert_eq!(
        listed().first().map(|one| (one["state"].clone(), one["pods"].clone())),
        Some(("running".into(), 1.into()))
    );

    // 1. Without a daemon that could notice, and at once.
    sandbox.kill_9();
    assert_eq!(listed()[0]["state"], "podsWithoutDaemon");
    fs::remove_dir_all(&data_dir).unwrap();
    user.ronde("down");
    assert_eq!(listed(), Vec::<serde_json::Value>::new());
    assert_eq!(home.run("pgrep -cf 'sleep 86420$'").stdout, b"0\n", "nothing runs");

    // 2. With one.
    user.ronde("up --detach --listen 127.0.0.1:0 --nodes 1");
    home.succeed("kubectl run sleeper --image none -- sleep 86421");
    home.succeed("kubectl wait --for=condition=Ready pod/sleeper --timeout 120s");
    fs::rename(&data_dir, sandbox.path("elsewhere")).unwrap();
    let is_gone = || (listed().is_empty() && home.run("pgrep -cf 'sleep 86421$'").stdout == b"0\n").then_some(());
    wait_until("all of it ends", LIMIT, is_gone);
}

/// Whether this machine lets everybody link a network of their own to its own.
fn is_link_possible() -> bool {
    let is_open = |path| fs::metadata(path).is_ok_and(|tun| tun.permissions().mode() & 0o006 == 0o006);
    fs::exists("/usr/bin/slirp4netns").unwrap() && is_open("/dev/net/tun")
}

/// Runs `ronde` as somebody without rights, in a sandbox that belongs to them.
struct User<'a> {
    sandbox: &'a Sandbox,
}

impl<'a> User<'a> {
    /// Starts an instance and returns what it said, or skips the test.
    fn up(sandbox: &'a Sandbox) -> Option<(Self, String)> {
        // Root is needed to become somebody else.
        if !is_root() || Program::find_all(&[]).is_none() || ["setpriv", "python3"].map(program).contains(&None) {
            return None;
        }
        let user = Self::new(sandbox);
        let said = user.ronde("up --detach --listen 127.0.0.1:0 --nodes 1");
        if said.contains("pods are plain processes") {
            skip("the kernel refuses user namespaces to ordinary users");
            return None;
        }
        Some((user, said))
    }

    fn new(sandbox: &'a Sandbox) -> Self {
        fs::copy(env!("CARGO_BIN_EXE_ronde"), sandbox.path("ronde")).unwrap();
        std::os::unix::fs::chown(sandbox.path(""), Some(USER), Some(USER)).unwrap();
        Self { sandbox }
    }

    /// The instances of this user on some data directory, wherever that is now.
    fn instances(&self, data_dir: &str) -> Vec<serde_json::Value> {
        let program = self.sandbox.path("ronde");
        let line = format!("--reuid={USER} --regid={USER} --clear-groups {} status --all -o json", program.display());
        let output = self.sandbox.command_of("setpriv", &line).output().unwrap();
        assert!(output.status.success(), "{}", self.sandbox.describe(&line, &output));
        let all: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
        let folder = Path::new(data_dir).parent().unwrap();
        all.into_iter()
            .filter(|one| one["dataDir"].as_str().is_some_and(|dir| Path::new(dir).starts_with(folder)))
            .collect()
    }

    fn ronde(&self, line: &str) -> String {
        let program = self.sandbox.path("ronde");
        let line = format!("--reuid={USER} --regid={USER} --clear-groups {} {line}", program.display());
        let output = self.sandbox.command_of("setpriv", &line).output().unwrap();
        assert!(output.status.success(), "{}", self.sandbox.describe(&line, &output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        // Root would not find the namespaces of another user.
        let program = self.sandbox.path("ronde");
        let line = format!("--reuid={USER} --regid={USER} --clear-groups {} down --quiet", program.display());
        let _ = self.sandbox.command_of("setpriv", &line).output();
    }
}
