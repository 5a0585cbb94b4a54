//! The processes of this user's instances, as `/proc` shows them.

use std::{
    io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use fs_err as fs;
use jiff::{SignedDuration, Timestamp};
use ronde_apiserver::STORE_FILE;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use crate::{
    orphans::{INSTANCE_MARK, MARK},
    sandbox::cgroup,
    start::{CGROUPS, instance},
    supervisor::folder::PodFolder,
};

/// Times in `/proc` are in hundredths of a second on every machine that we run on.
const TICKS_PER_SECOND: u64 = 100;
/// What the kernel adds to the name of a file that was deleted while it was open.
const DELETED: &str = " (deleted)";
/// The names that supervisors and holders give themselves.
const SUPERVISOR: &str = "ronde-pod";
const HOLDER: &str = "ronde-holder";

/// A process that belongs to an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    /// Tells it from a later one with the same number.
    pub started_ticks: u64,
    pub role: Role,
}

/// What a process is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Daemon {
        data_dir: PathBuf,
    },
    Supervisor {
        data_dir: PathBuf,
        pod: String,
    },
    /// Holds the namespaces of an ordinary user.
    Holder {
        data_dir: PathBuf,
    },
    /// Part of a pod: it ends with its supervisor, or has outlived it.
    Outlived {
        instance: String,
        pod: String,
    },
}

impl Role {
    /// The name of the instance.
    pub fn instance(&self) -> String {
        match self {
            Self::Daemon { data_dir } | Self::Supervisor { data_dir, .. } | Self::Holder { data_dir } => {
                instance(data_dir)
            }
            Self::Outlived { instance, .. } => instance.clone(),
        }
    }
}

impl Process {
    /// Kills it, unless it has ended.
    ///
    /// # Errors
    /// If we may not.
    pub fn kill(&self) -> io::Result<()> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(()) };
        let process = pidfd_open(pid, PidfdFlags::empty());
        // Still the one that was looked at, so the handle is no other's. Of one that is about to vanish kernels say
        // different things.
        if started_ticks(self.pid) == Some(self.started_ticks) {
            ronde_process::kill::signal(process?.as_fd(), Signal::KILL)?;
        }
        Ok(())
    }
}

/// When the machine was started, from which `/proc` counts.
pub struct Boot(pub Timestamp);

impl Boot {
    pub fn read() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        let seconds = text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
        let boot = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        boot.map(Self).ok_or_else(|| io::Error::other("/proc/stat has no boot time"))
    }

    /// When a process was started.
    pub fn time_of(&self, process: &Process) -> Option<Timestamp> {
        let seconds = i64::try_from(process.started_ticks / TICKS_PER_SECOND).ok()?;
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok()
    }
}

/// Lists the processes of all instances of this user in this pid namespace.
pub fn all() -> io::Result<Vec<Process>> {
    let own = Own::read()?;
    let mut found: Vec<Process> = numbers()?.into_iter().filter_map(|pid| own.look_at(pid)).collect();
    // By control group, whoever they run as: the group is ours.
    for name in cgroup::instances(Path::new(CGROUPS)) {
        for (pod, pid) in cgroup::processes_of_instance(Path::new(CGROUPS), &name) {
            let role = Role::Outlived { instance: name.clone(), pod };
            if let Some(started_ticks) = started_ticks(pid).filter(|_| found.iter().all(|known| known.pid != pid)) {
                found.push(Process { pid, started_ticks, role });
            }
        }
    }
    Ok(found)
}

fn numbers() -> io::Result<Vec<i32>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// Who we are, as far as it tells our processes from others.
struct Own {
    uid: u32,
    is_root: bool,
    pids: PathBuf,
    users: PathBuf,
}

impl Own {
    fn read() -> io::Result<Self> {
        let uid = rustix::process::getuid();
        let namespace = |name: &str| fs::read_link(format!("/proc/self/ns/{name}"));
        Ok(Self { uid: uid.as_raw(), is_root: uid.is_root(), pids: namespace("pid")?, users: namespace("user")? })
    }

    fn look_at(&self, pid: i32) -> Option<Process> {
        let namespace = |name: &str| fs::read_link(format!("/proc/{pid}/ns/{name}")).ok();
        if namespace("pid")? != self.pids {
            return None;
        }
        // What an ordinary user may look at in another user namespace is in one that he has made.
        let is_in_own_namespace = !self.is_root && namespace("user").is_some_and(|users| users != self.users);
        if !is_in_own_namespace && uid_of(pid)? != self.uid {
            return None;
        }
        Some(Process { pid, started_ticks: started_ticks(pid)?, role: role(pid)? })
    }
}

fn role(pid: i32) -> Option<Role> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let arguments = words(pid, "cmdline");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (name.trim_end(), arguments.as_slice()) {
        (SUPERVISOR, [_, "supervise", folder]) => supervisor(Path::new(folder)),
        (HOLDER, _) => Some(Role::Holder { data_dir: data_dir_of_open_file(pid, "node/holder.lock")? }),
        (_, [_, words @ ..])
            if words.contains(&"up")
                && let Some(data_dir) = data_dir_of_open_file(pid, STORE_FILE) =>
        {
            Some(Role::Daemon { data_dir })
        }
        _ => marked(pid),
    }
}

fn supervisor(folder: &Path) -> Option<Role> {
    let folder = PodFolder(folder.to_owned());
    let pod = folder.path().file_name()?.to_str()?.to_owned();
    Some(Role::Supervisor { data_dir: folder.data_dir()?.to_owned(), pod })
}

fn marked(pid: i32) -> Option<Role> {
    let environment = words(pid, "environ");
    let value = |mark: &str| {
        environment.iter().find_map(|variable| variable.strip_prefix(mark)?.strip_prefix('=')).map(str::to_owned)
    };
    Some(Role::Outlived { instance: value(INSTANCE_MARK)?, pod: value(MARK)? })
}

/// Returns the data directory in which a process has a file open, also if that was deleted since.
fn data_dir_of_open_file(pid: i32, file: &str) -> Option<PathBuf> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut targets = files.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.find_map(|target| data_dir_of(target.to_str()?, file))
}

fn data_dir_of(target: &str, file: &str) -> Option<PathBuf> {
    let target = target.strip_suffix(DELETED).unwrap_or(target);
    target.strip_suffix(file)?.strip_suffix('/').map(PathBuf::from)
}

fn words(pid: i32, file: &str) -> Vec<String> {
    let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let words = text.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The user that a process was started by.
fn uid_of(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok())
}

/// When a process was started, in the kernel's own count; none if it has ended.
fn started_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&stat)
}

/// The name of a process may have spaces and parentheses; what is behind it has none.
fn parse_stat(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    // The 22nd field of the line; the state is the third.
    fields.nth(18)?.parse().ok().filter(|_| !is_dead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_tells_the_data_directory() {
        let check = |target: &str, expected: Option<&str>| {
            assert_eq!(data_dir_of(target, "store.redb"), expected.map(PathBuf::from), "{target}");
        };
        check("/var/lib/ronde/store.redb", Some("/var/lib/ronde"));
        check("/var/lib/ronde/store.redb (deleted)", Some("/var/lib/ronde"));
        check("/var/lib/ronde/other-store.redb", None);
        check("socket:[123]", None);
    }

    #[test]
    fn the_start_of_a_process_is_read_behind_its_name() {
        let rest = "0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 100";
        assert_eq!(parse_stat(&format!("7 (a) b) S {rest}")), Some(4711));
        assert_eq!(parse_stat(&format!("7 (ronde) Z {rest}")), None, "it has ended");
        assert_eq!(parse_stat("7 (ronde"), None);
    }

    #[test]
    fn a_process_is_not_killed_in_the_place_of_another() {
        let role = Role::Outlived { instance: String::new(), pod: String::new() };
        let own = i32::try_from(std::process::id()).unwrap();
        // If this were believed, the test would not live to tell.
        Process { pid: own, started_ticks: 1, role }.kill().unwrap();
    }
}
