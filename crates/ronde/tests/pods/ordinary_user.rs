//! The same without root: an ordinary user's machine lives in a user namespace.

use std::{
    collections::BTreeSet,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::{Command, Output},
};

use fs_err as fs;
use ronde_sim::{is_root, program, skip, wait_until};

use crate::{
    client::{Home, Program},
    directory, has_static_busybox, play_in,
    sandbox::{LIMIT, Sandbox},
};

/// `nobody`, whom every machine has.
const USER: u32 = 65534;

/// What `lent-ids` lends: the first is user 1 in a pod.
const LENT: u32 = 300_000;

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
fn files_of_an_image_have_their_owners_where_ids_are_lent() {
    if !has_static_busybox() || ["unshare", "newuidmap", "newgidmap"].map(program).contains(&None) {
        return;
    }
    let sandbox = Sandbox::new();
    if !is_root() {
        return;
    }
    if !sandbox.command_of(&lent_ids(), "true").output().unwrap().status.success() {
        return skip("nothing may be mounted over this machine's lists of lent users");
    }
    let Some((user, said)) = User::up_with(&sandbox, true) else { return };
    assert!(!said.contains("no subordinate ids"), "{said}");
    let home = Home::of(&sandbox, &directory().join("bin"));
    home.succeed("owned-image owned.tar && chmod 644 owned.tar");
    let load = format!("image load {}", sandbox.path("owned.tar").display());

    // 1. Everybody has their files, root may change them, and a program with the rights of root has them.
    user.ronde(&load);
    let seen = |user: u32, group: u32| {
        format!(
            "{user}\n{group}\n1234:55 700 /home/app\n0:0 644 /home/far\n1234:55 600 /home/app/mine\nsecret\n\
             0\n7:8\n1234\n"
        )
    };
    home.succeed("kubectl run owned --image test/owned:1 --restart Never");
    assert_eq!(logs_of(&home, "owned"), seen(1234, 55));
    let other = r#"{"spec":{"securityContext":{"runAsUser":4242,"runAsGroup":77}}}"#;
    home.succeed(&format!("kubectl run other --image test/owned:1 --restart Never --overrides '{other}'"));
    let denied =
        "stat: can't stat '/home/app/mine': Permission denied\ncat: can't open '/home/app/mine': Permission denied\n";
    let lines = seen(4242, 77).replace("1234:55 600 /home/app/mine\nsecret\n", denied);
    assert_eq!(logs_of(&home, "other"), lines);
    assert_eq!(owners_in(&sandbox.path("data/images/layers")), [USER, LENT + 1233]);

    // 2. Without a cluster too. Removing needs the same rights as adding.
    home.succeed("kubectl delete pod owned other --timeout 60s");
    user.ronde("down");
    assert_eq!(user.stdout("image list -o name"), "test/owned:1\n");
    user.ronde("image remove test/owned:1");
    assert_eq!(fs::read_dir(sandbox.path("data/images/layers")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(sandbox.path("data/images/tmp")).unwrap().count(), 0);
    user.ronde(&load);
    assert_eq!(owners_in(&sandbox.path("data/images/layers")), [USER, LENT + 1233]);
    user.ronde("down --delete-data");
    assert!(!fs::exists(sandbox.path("data")).unwrap(), "nothing is left");
}

/// The program that lends users to `nobody`.
fn lent_ids() -> String {
    directory().join("bin/lent-ids").display().to_string()
}

fn logs_of(home: &Home, pod: &str) -> String {
    home.succeed(&format!("kubectl wait --for=jsonpath='{{.status.phase}}'=Succeeded pod/{pod} --timeout 120s"));
    home.succeed(&format!("kubectl logs {pod}"))
}

/// Whom the files below a folder belong to, each once.
fn owners_in(folder: &Path) -> Vec<u32> {
    let mut owners = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let meta = entry.metadata().unwrap();
            owners.insert(meta.uid());
            folders.extend(meta.is_dir().then(|| entry.path()));
        }
    }
    owners.into_iter().collect()
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
    /// Whether the machine lends them users and groups.
    has_lent: bool,
}

impl<'a> User<'a> {
    /// Starts an instance and returns what it said, or skips the test.
    fn up(sandbox: &'a Sandbox) -> Option<(Self, String)> {
        Self::up_with(sandbox, false)
    }

    fn up_with(sandbox: &'a Sandbox, has_lent: bool) -> Option<(Self, String)> {
        // Root is needed to become somebody else.
        if !is_root() || Program::find_all(&[]).is_none() || ["setpriv", "python3"].map(program).contains(&None) {
            return None;
        }
        fs::copy(env!("CARGO_BIN_EXE_ronde"), sandbox.path("ronde")).unwrap();
        std::os::unix::fs::chown(sandbox.path(""), Some(USER), Some(USER)).unwrap();
        let user = Self { sandbox, has_lent };
        let said = user.ronde("up --detach --listen 127.0.0.1:0 --nodes 1");
        if said.contains("pods are plain processes") {
            skip("the kernel refuses user namespaces to ordinary users");
            return None;
        }
        Some((user, said))
    }

    /// The instances of this user on some data directory, wherever that is now.
    fn instances(&self, data_dir: &str) -> Vec<serde_json::Value> {
        let all: Vec<serde_json::Value> = serde_json::from_str(&self.stdout("status --all -o json")).unwrap();
        let folder = Path::new(data_dir).parent().unwrap();
        all.into_iter()
            .filter(|one| one["dataDir"].as_str().is_some_and(|dir| Path::new(dir).starts_with(folder)))
            .collect()
    }

    fn command(&self, line: &str) -> Command {
        let program = self.sandbox.path("ronde");
        let line = format!("--reuid={USER} --regid={USER} --clear-groups {} {line}", program.display());
        if self.has_lent {
            return self.sandbox.command_of(&lent_ids(), &format!("setpriv {line}"));
        }
        self.sandbox.command_of("setpriv", &line)
    }

    fn run(&self, line: &str) -> Output {
        let output = self.command(line).output().unwrap();
        assert!(output.status.success(), "{}", self.sandbox.describe(line, &output));
        output
    }

    /// Returns what a command says.
    fn ronde(&self, line: &str) -> String {
        String::from_utf8(self.run(line).stderr).unwrap()
    }

    fn stdout(&self, line: &str) -> String {
        String::from_utf8(self.run(line).stdout).unwrap()
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        // Root would not find the namespaces of another user.
        let _ = self.command("down --quiet").output();
    }
}
