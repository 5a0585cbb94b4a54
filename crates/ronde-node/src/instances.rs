//! Finds the instances of this user on this machine by what the kernel knows of them, whether or not their data
//! directories are still there; and removes what is left of one.
//!
//! The marks are the arguments of supervisors, the files that daemons and holders of namespaces keep open, the
//! environment of processes that outlived a supervisor, the names of control groups and, for root, bridges and firewall
//! tables. Nothing of other users is looked at, nor processes of other pid namespaces (containers with a ronde in them).

mod processes;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::sleep;

use self::processes::{Process, Role};
use crate::{
    net::{
        self, NetworkPlace, Trace,
        names::{self, BRIDGE_PREFIX},
    },
    sandbox::cgroup,
    start::{CGROUPS, instance},
    sweep::remove_cgroups,
};

/// A killed process is gone after a moment; one that waits for a disk takes longer. Ten seconds in all.
const ROUNDS_MAX: usize = 1000;
const ROUND: Duration = Duration::from_millis(10);

/// An instance, or what is left of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instance {
    /// What [`instance`] makes of the data directory; of a network that nobody knows, the bridge's name.
    pub name: String,
    pub data_dir: Option<PathBuf>,
    /// The process of `ronde up`.
    pub daemon: Option<i32>,
    /// The uids of pods that have a process.
    pub pods: BTreeSet<String>,
    /// When the oldest process was started.
    pub since: Option<Timestamp>,
    /// Supervisors and what outlived them, and the holder of an ordinary user's namespaces.
    processes: Vec<Process>,
}

/// How an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Running,
    /// The daemon has ended, and pods go on.
    PodsWithoutDaemon,
    /// Only a network or namespaces are left; the data directory is there.
    Stopped,
    /// There is no data directory any more.
    Orphaned,
}

impl Instance {
    pub fn state(&self) -> State {
        let has_data = self.data_dir.as_ref().is_some_and(|data_dir| data_dir.join("node").exists());
        match self.daemon {
            Some(_) => State::Running,
            None if !has_data => State::Orphaned,
            None if self.pods.is_empty() => State::Stopped,
            None => State::PodsWithoutDaemon,
        }
    }

    fn add(&mut self, process: &Process, now: &processes::Boot) {
        let started = now.time_of(process);
        self.since = self.since.min(started).or(started);
        match &process.role {
            Role::Daemon { data_dir } => {
                self.daemon = Some(process.pid);
                self.data_dir = Some(data_dir.clone());
                return;
            }
            Role::Holder { data_dir } => drop(self.data_dir.get_or_insert_with(|| data_dir.clone())),
            Role::Supervisor { data_dir, pod } => {
                self.data_dir.get_or_insert_with(|| data_dir.clone());
                self.pods.insert(pod.clone());
            }
            Role::Outlived { pod, .. } => drop(self.pods.insert(pod.clone())),
        }
        self.processes.push(process.clone());
    }
}

/// Finds all instances of this user, by name. `place` is where root's networks are; nothing for an ordinary user, whose
/// networks are in namespaces that end with their last process.
///
/// # Errors
/// If the kernel does not say.
pub async fn find(place: Option<&NetworkPlace>) -> io::Result<Vec<Instance>> {
    let mut found = from_processes(&processes::all()?, &processes::Boot::read()?);
    if let Some(place) = place {
        let traces = net::traces(place).await.map_err(io::Error::other)?;
        add_networks(&mut found, traces, &cgroup::instances(Path::new(CGROUPS)));
    }
    Ok(found.into_values().collect())
}

fn from_processes(processes: &[Process], boot: &processes::Boot) -> BTreeMap<String, Instance> {
    let mut found: BTreeMap<String, Instance> = BTreeMap::new();
    for process in processes {
        let name = process.role.instance();
        let entry = || Instance { name: name.clone(), ..Instance::default() };
        found.entry(name.clone()).or_insert_with(entry).add(process, boot);
    }
    found
}

/// Puts networks to their instances. One that nobody here knows is only taken for a leftover if nothing is attached to
/// it: its daemon may be in a container that shares our network.
fn add_networks(found: &mut BTreeMap<String, Instance>, traces: Vec<Trace>, groups: &[String]) {
    for trace in traces {
        let is_of = |name: &&String| names::bridge(name) == trace.bridge;
        let of_data = trace.data_dir.as_deref().map(instance);
        let name = found.keys().find(is_of).or_else(|| groups.iter().find(is_of)).cloned();
        let name = name.or_else(|| of_data.filter(|name| is_of(&name))).unwrap_or_else(|| trace.bridge.clone());
        if trace.is_used && !found.contains_key(&name) {
            continue;
        }
        let entry = found.entry(name.clone()).or_insert_with(|| Instance { name, ..Instance::default() });
        entry.data_dir = entry.data_dir.take().or(trace.data_dir);
    }
}

/// Removes what is left of an instance: its pods at once, then control groups and network. Its daemon is not touched:
/// who calls has stopped it, or is it. Returns how many pods were ended.
///
/// # Errors
/// If something cannot be ended or removed.
pub async fn remove(name: &str, place: Option<&NetworkPlace>) -> io::Result<usize> {
    let mut pods = BTreeSet::new();
    let mut rounds = 0;
    while let Some(left) = living(name)? {
        if rounds == ROUNDS_MAX {
            let numbers: Vec<String> = left.processes.iter().map(|process| process.pid.to_string()).collect();
            return Err(io::Error::other(format!("these processes do not exit: {}", numbers.join(", "))));
        }
        for process in &left.processes {
            process.kill()?;
        }
        pods.extend(left.pods);
        rounds += 1;
        sleep(ROUND).await;
    }
    remove_cgroups(name);
    if let Some(place) = place {
        let bridge = if name.starts_with(BRIDGE_PREFIX) { name.to_owned() } else { names::bridge(name) };
        net::remove_bridge(&bridge, place).await.map_err(io::Error::other)?;
    }
    Ok(pods.len())
}

/// The instance of a name, while it has processes beside its daemon.
fn living(name: &str) -> io::Result<Option<Instance>> {
    let found = from_processes(&processes::all()?, &processes::Boot::read()?).remove(name);
    Ok(found.filter(|instance| !instance.processes.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, role: Role) -> Process {
        Process { pid, started_ticks: u64::try_from(pid).unwrap() * 100, role }
    }

    fn supervisor(pid: i32, data_dir: &str, pod: &str) -> Process {
        process(pid, Role::Supervisor { data_dir: data_dir.into(), pod: pod.into() })
    }

    fn show(found: &BTreeMap<String, Instance>) -> Vec<String> {
        let line = |one: &Instance| {
            let data = one.data_dir.as_ref().map_or("?".to_owned(), |path| path.display().to_string());
            let pods: Vec<&str> = one.pods.iter().map(String::as_str).collect();
            let pids: Vec<i32> = one.processes.iter().map(|process| process.pid).collect();
            format!("{data} daemon {:?} pods {} processes {pids:?} {:?}", one.daemon, pods.join("+"), one.state())
        };
        found.values().map(line).collect()
    }

    #[test]
    fn processes_are_told_apart_by_data_directory() {
        let boot = processes::Boot(Timestamp::UNIX_EPOCH);
        let (a, b) = ("/nowhere/a", "/nowhere/b");
        let found = from_processes(
            &[
                supervisor(30, a, "p1"),
                process(10, Role::Daemon { data_dir: a.into() }),
                supervisor(40, b, "p2"),
                process(41, Role::Outlived { instance: instance(Path::new(b)), pod: "p2".into() }),
                process(42, Role::Holder { data_dir: b.into() }),
            ],
            &boot,
        );
        let mut shown = show(&found);
        shown.sort();
        assert_eq!(
            shown,
            [
                "/nowhere/a daemon Some(10) pods p1 processes [30] Running",
                "/nowhere/b daemon None pods p2 processes [40, 41, 42] Orphaned",
            ]
        );
        let since = found[&instance(Path::new(a))].since.unwrap();
        assert_eq!(since.as_second(), 10, "the oldest process counts");
    }

    fn trace(bridge: &str, data_dir: Option<&str>, is_used: bool) -> Trace {
        Trace { bridge: bridge.into(), data_dir: data_dir.map(PathBuf::from), is_used }
    }

    #[test]
    fn networks_find_their_instances() {
        let running = instance(Path::new("/nowhere/a"));
        let gone = instance(Path::new("/gone"));
        let (bridge, gone_bridge) = (names::bridge(&running), names::bridge(&gone));
        let check = |what: &str, trace: Trace, groups: &[&String], expected: &[&str]| {
            let boot = processes::Boot(Timestamp::UNIX_EPOCH);
            let mut found = from_processes(&[supervisor(1, "/nowhere/a", "p")], &boot);
            let groups: Vec<String> = groups.iter().map(|&name| name.clone()).collect();
            add_networks(&mut found, vec![trace], &groups);
            found.remove(&running).expect("it runs");
            assert_eq!(found.keys().collect::<Vec<_>>(), expected, "{what}");
        };
        check("of pods that run", trace(&bridge, None, true), &[], &[]);
        check("known by its own words", trace(&gone_bridge, Some("/gone"), false), &[], &[&gone]);
        check("known by a control group", trace(&gone_bridge, None, false), &[&gone], &[&gone]);
        check("of nobody", trace("ronde-1", None, false), &[], &["ronde-1"]);
        check("whose words are another's", trace("ronde-1", Some("/gone"), false), &[], &["ronde-1"]);
        check("in use by someone whom we do not see", trace(&gone_bridge, Some("/gone"), true), &[&gone], &[]);
    }
}
