//! Ranks through a real sshd on a loopback port, with keys of its own.

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
};

use ronde_sim::wait_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{BUSY, Running, SOON, Sandbox, path_with};

const SSHD: &str = "/usr/sbin/sshd";
/// Where sshd listens: beside the address whose port is held.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// An sshd, and an ssh in front of the system's that knows it by the names `one` and `two`.
struct Server {
    sandbox: Sandbox,
    sshd: Child,
    /// Nobody else is given this port.
    held: TcpListener,
}

impl Server {
    fn start() -> Option<Self> {
        if !Path::new(SSHD).exists() || ronde_sim::find_program("ssh").is_none() {
            ronde_sim::skip("`sshd` and `ssh` are not installed");
            return None;
        }
        // sshd refuses to start without its folder for separated rights.
        let _ = fs_err::create_dir_all("/run/sshd");
        let sandbox = Sandbox::new();
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = held.local_addr().unwrap().port();
        for key in ["host", "user"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(sandbox.path(key));
            assert!(command.status().unwrap().success());
        }
        let at = |name: &str| sandbox.path(name).display().to_string();
        // A home of its own: a shell that is killed while it reads the user's start files may leave them locked.
        let server = format!(
            "ListenAddress {ADDRESS}\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
             PidFile none\nPermitRootLogin yes\nPasswordAuthentication no\nSetEnv HOME={}\n",
            at("host"),
            at("user.pub"),
            sandbox.folder.path().display()
        );
        fs_err::write(sandbox.path("sshd_config"), server).unwrap();
        let client = format!(
            "Host one two\n  HostName {ADDRESS}\nHost *\n  UserKnownHostsFile {}\n  LogLevel ERROR\n  BatchMode yes\n",
            at("known")
        );
        fs_err::write(sandbox.path("ssh_config"), client).unwrap();
        let ssh = ronde_sim::find_program("ssh").unwrap();
        sandbox.script("ssh", &format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", ssh.display(), at("ssh_config")));
        let sshd = Command::new(SSHD)
            .args(["-D", "-e", "-f"])
            .arg(sandbox.path("sshd_config"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("sshd listens", SOON, || TcpStream::connect((ADDRESS, port)).ok());
        Some(Self { sandbox, sshd, held })
    }

    fn launcher(&self, np: &str, line: &str) -> Command {
        self.with_flags(&["-np", np, "-H", "one:2,two:2"], line)
    }

    fn with_flags(&self, flags: &[&str], line: &str) -> Command {
        let port = self.held.local_addr().unwrap().port();
        let (port, key) = (port.to_string(), self.sandbox.path("user").display().to_string());
        let flags = [flags, &["-p", &port, "-i", &key, "sh", "-c", line]].concat();
        let mut command = self.sandbox.launcher(&flags);
        command.env("PATH", path_with(self.sandbox.folder.path()));
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

#[test]
fn ranks_run_over_ssh() {
    let Some(server) = Server::start() else { return };
    // The one that fails waits for the one that is looked at: the others are ended with it.
    let line = "echo $HOROVOD_HOSTNAME $HOROVOD_RANK \"$OWN\" $(pwd); [ $HOROVOD_RANK = 2 ] && : >said; \
                if [ $HOROVOD_RANK = 3 ]; then until [ -e said ]; do sleep 0.02; done; exit 1; fi";
    let output = server.launcher("4", line).env("OWN", "it's").output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    let folder = server.sandbox.folder.path().display();
    assert!(stdout.contains(&format!("[2]<stdout>:two 2 it's {folder}\n")), "{stdout}{stderr}");
    assert!(stderr.contains("rank 3 on host `two` exited with code 1"), "{stderr}");
    server.sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn nothing_stays_on_the_host_when_the_launcher_is_killed() {
    let Some(server) = Server::start() else { return };
    let line = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = Running::start(server.launcher("3", line), 3);
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    server.sandbox.wait_for_nothing_left(ronde_launch::start::NOTICED_WITHIN + BUSY);
}

/// One that is left behind in a session of its own, without hold on the rank's streams.
const FAR_CHILD: &str = "setsid sleep 600 >/dev/null 2>&1 & ";

#[test]
fn what_a_rank_leaves_behind_on_the_host_ends_with_it() {
    let Some(server) = Server::start() else { return };
    let output = server.launcher("2", &format!("{FAR_CHILD} exit 7")).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    server.sandbox.wait_for_nothing_left(ronde_launch::start::NOTICED_WITHIN + BUSY);
}

/// Whichever of the shells that watch over a rank on its host is killed before the launcher is.
#[test]
fn nothing_on_the_host_outlives_who_watches_over_it() {
    let Some(server) = Server::start() else { return };
    // The shell that ssh has reached, and the two watchdogs that it has started.
    for index in 0..3 {
        let line = format!("trap '' TERM; {FAR_CHILD} echo $PPID >shell; echo ready; while :; do sleep 0.05; done");
        let mut running = Running::start(server.launcher("1", &line), 1);
        let shell = fs_err::read_to_string(server.sandbox.path("shell")).unwrap().trim().parse().unwrap();
        let watchers = watchers(shell);
        assert_eq!(watchers.len(), 3, "{watchers:?}");
        kill_process(Pid::from_raw(watchers[index]).unwrap(), Signal::KILL).unwrap();
        running.signal(Signal::KILL);
        running.child.wait().unwrap();
        server.sandbox.wait_for_nothing_left(ronde_launch::start::NOTICED_WITHIN + BUSY);
    }
}

/// The shells of a process group that run our line.
fn watchers(group: i32) -> Vec<i32> {
    let is_one = |pid: &i32| {
        let words = fs_err::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let own = || rustix::process::getpgid(Pid::from_raw(*pid)).ok();
        words.contains("read -r ronde_code") && own() == Pid::from_raw(group)
    };
    let all = fs_err::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_one).collect()
}

/// A host that takes the call and never says a word.
#[test]
fn an_ssh_that_waits_for_its_host_ends_with_the_launcher() {
    let Some(server) = Server::start() else { return };
    let silent = TcpListener::bind((ADDRESS, 0)).unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    for flags in [["-np", "1"], ["--min-np", "1"]] {
        let mut command = server.sandbox.launcher(&[flags[0], flags[1], "-H", "one:1", "-p", &port, "true"]);
        let mut launcher = command.env("PATH", path_with(server.sandbox.folder.path())).spawn().unwrap();
        let call = silent.accept().unwrap();
        launcher.kill().unwrap();
        launcher.wait().unwrap();
        server.sandbox.wait_for_nothing_left(ronde_launch::start::NOTICED_WITHIN + BUSY);
        drop(call);
    }
}

#[test]
fn hosts_that_ssh_does_not_reach_are_named() {
    let Some(mut server) = Server::start() else { return };
    server.sshd.kill().unwrap();
    server.sshd.wait().unwrap();
    let output = server.launcher("4", "true").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("ssh not successful for host one:\n") && stderr.contains("host two:\n"), "{stderr}");
    assert!(stderr.contains("Connection refused") && stderr.contains("\nhint: `ssh "), "{stderr}");
}

#[test]
fn an_unknown_host_is_named() {
    let Some(server) = Server::start() else { return };
    for (flags, code, expected, hint) in [
        (["-np", "1", "-H", "no.invalid:1"].as_slice(), 3, "ssh not successful for host no.invalid:\n", "`ssh "),
        (
            &["--min-np", "1", "-H", "no.invalid:1", "--elastic-timeout", "8"],
            3,
            "0 ranks ready after 8 s, at least 1 needed",
            "add hosts",
        ),
    ] {
        let output = server.with_flags(flags, "true").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains("Could not resolve hostname no.invalid"), "{stderr}");
        assert!(stderr.contains(expected) && stderr.contains(&format!("\nhint: {hint}")), "{stderr}");
    }
    server.sandbox.wait_for_nothing_left(SOON);
}
