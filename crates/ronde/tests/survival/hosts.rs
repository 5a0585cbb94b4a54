//! Several hosts on one machine, as network namespaces, and the three ways by which a launcher reaches them.
//!
//! The launcher is on a host of its own. What answers on the others (an agent, an sshd) may be killed; it is started
//! again by [`Hosts::revive`], as the init of a real host would.

use std::{
    fs::Permissions,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use fs_err as fs;
use ronde_sim::{find_program, is_root, program, skip, wait_until};

use crate::network::{Network, address};

const SSHD: &str = "/usr/sbin/sshd";
const SECRET: &str = "0123456789abcdef\n";
/// The launcher's host is the first, these are for ranks.
pub const HOSTS: std::ops::RangeInclusive<usize> = 2..=4;
const LAUNCHERS: usize = 1;
/// Each host is a network of its own, on which nobody has it yet.
const PORT: u16 = 2222;

/// How a launcher starts ranks on the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A command of the user's: here `ip netns exec`.
    Command,
    Ssh,
    Agents,
}

pub struct Hosts {
    way: Way,
    network: Network,
    folder: tempfile::TempDir,
    services: Vec<(usize, Child)>,
}

impl Hosts {
    /// Hosts that can be reached; skips the test where that cannot be.
    pub fn new(way: Way) -> Option<Self> {
        if !is_root() {
            return None;
        }
        program("ip")?;
        if way == Way::Ssh && !(Path::new(SSHD).exists() && find_program("ssh").is_some()) {
            skip("`sshd` and `ssh` are not installed");
            return None;
        }
        let network = Network::new(*HOSTS.end());
        let mut hosts = Self { way, network, folder: tempfile::tempdir().unwrap(), services: Vec::new() };
        hosts.prepare();
        hosts.revive();
        Some(hosts)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn prepare(&self) {
        match self.way {
            Way::Command => {
                let prefix = self.network.name(LAUNCHERS).trim_end_matches(char::is_numeric);
                // As sshd does it, the line gets a session of its own.
                let text = format!("#!/bin/sh\nexec setsid -w ip netns exec {prefix}${{1##*.}} sh -c \"$2\"\n");
                self.script("rsh", &text);
            }
            Way::Agents => fs::write(self.path("secret"), SECRET).unwrap(),
            Way::Ssh => self.prepare_ssh(),
        }
    }

    fn prepare_ssh(&self) {
        // sshd refuses to start without its folder for separated rights.
        let _ = fs::create_dir_all("/run/sshd");
        for key in ["host", "user"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(self.path(key));
            assert!(command.status().unwrap().success());
        }
        let at = |name: &str| self.path(name).display().to_string();
        // A home of its own: a shell that is killed while it reads the user's start files may leave them locked.
        let (key, users, home) = (at("host"), at("user.pub"), self.folder.path().display());
        let server = format!(
            "Port {PORT}\nHostKey {key}\nAuthorizedKeysFile {users}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 100\nSetEnv HOME={home}\n"
        );
        fs::write(self.path("sshd_config"), server).unwrap();
        let client = format!("UserKnownHostsFile {}\nLogLevel ERROR\nBatchMode yes\n", at("known"));
        fs::write(self.path("ssh_config"), client).unwrap();
        let ssh = find_program("ssh").unwrap();
        self.script("ssh", &format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", ssh.display(), at("ssh_config")));
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(0o755)).unwrap();
    }

    /// Starts what answers on the hosts, where it has ended; returns on how many that was.
    pub fn revive(&mut self) -> usize {
        if self.way == Way::Command {
            return 0;
        }
        self.services.retain_mut(|(_, child)| child.try_wait().unwrap().is_none());
        let dead: Vec<usize> = HOSTS.filter(|host| self.services.iter().all(|(it, _)| it != host)).collect();
        for host in &dead {
            let child = self.service(*host).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            self.services.push((*host, child));
        }
        dead.iter().for_each(|host| self.wait_for_service(*host));
        dead.len()
    }

    fn service(&self, host: usize) -> Command {
        if self.way == Way::Ssh {
            let mut command = self.network.inside(host, Command::new("ip"), SSHD);
            command.args(["-D", "-e", "-f"]).arg(self.path("sshd_config"));
            return command;
        }
        let mut command = self.network.inside(host, Command::new("ip"), env!("CARGO_BIN_EXE_ronde"));
        command.args(["agent", "--listen", &format!("{}:{}", address(host), PORT)]);
        command.arg("--secret-file").arg(self.path("secret"));
        command
    }

    fn wait_for_service(&self, host: usize) {
        let listens = || {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", self.network.name(host), "cat", "/proc/net/tcp", "/proc/net/tcp6"]);
            let sockets = String::from_utf8(command.output().unwrap().stdout).unwrap();
            let port = format!(":{PORT:04X} ");
            // State 0A: it listens.
            sockets.lines().any(|line| line.contains(&port) && line.contains(" 0A ")).then_some(())
        };
        wait_until("a host answers", Duration::from_secs(60), listens);
    }

    /// The launcher with its flags, on its own host.
    pub fn launcher(&self, flags: &[&str]) -> Command {
        let mut command = self.network.inside(LAUNCHERS, Command::new("ip"), env!("CARGO_BIN_EXE_ronde"));
        command.arg("run").args(flags);
        match self.way {
            Way::Command => _ = command.arg("--rsh").arg(self.path("rsh")),
            Way::Agents => {
                command.env("RONDE_AGENT_PORT", PORT.to_string()).env("RONDE_SECRET_FILE", self.path("secret"));
            }
            Way::Ssh => {
                command.args(["-p", &PORT.to_string(), "-i"]).arg(self.path("user"));
                let folder = self.folder.path().display();
                command.env("PATH", format!("{folder}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"));
            }
        }
        command
    }

    fn network_id(&self, host: usize) -> u64 {
        fs::metadata(format!("/run/netns/{}", self.network.name(host))).unwrap().ino()
    }

    /// Everything that runs on a host.
    pub fn processes(&self, host: usize) -> Vec<u32> {
        let network = self.network_id(host);
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| network_of(*pid) == Some(network)).collect()
    }

    /// Everything that runs on the launcher's host.
    pub fn around_launcher(&self) -> Vec<u32> {
        self.processes(LAUNCHERS)
    }

    /// Whether a process near the launcher, or what it keeps, is the way to a host.
    pub fn leads_to(&self, pid: u32, host: usize) -> bool {
        let words = words_of(pid);
        let is_way = |name: &str| words.contains(&format!("{name} "));
        is_way(&address(host))
            || is_way(self.network.name(host))
            || children_of(pid).into_iter().any(|child| self.leads_to(child, host))
    }

    /// On which host a process is.
    pub fn host_of(&self, pid: u32) -> Option<usize> {
        let network = network_of(pid)?;
        let mut hosts = HOSTS;
        hosts.find(|host| self.network_id(*host) == network)
    }

    /// What a job has left behind: all but what answers on the hosts.
    pub fn leftovers(&self) -> Vec<String> {
        let own = self.services.iter().flat_map(|(_, child)| [vec![child.id()], agent_proper(child.id())].concat());
        let own: Vec<u32> = own.collect();
        let all = (LAUNCHERS..=*HOSTS.end()).flat_map(|host| self.processes(host));
        all.filter(|pid| !own.contains(pid)).map(|pid| format!("{pid} {}", words_of(pid))).collect()
    }
}

/// Below the outer process of an agent is the agent proper; what it has started is below that.
fn agent_proper(pid: u32) -> Vec<u32> {
    if words_of(pid).contains(" agent ") { children_of(pid) } else { Vec::new() }
}

fn children_of(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The network namespace of a process, by the number of its file.
fn network_of(pid: u32) -> Option<u64> {
    Some(fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino())
}

/// The command line of a process.
fn words_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for (_, child) in &mut self.services {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Nobody is left on a network that goes away.
        for pid in (LAUNCHERS..=*HOSTS.end()).flat_map(|host| self.processes(host)) {
            crate::job::kill(pid);
        }
    }
}
