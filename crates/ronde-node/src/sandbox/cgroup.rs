//! Control groups: limits on memory, CPU time and the number of processes, in both versions of the interface.
//!
//! [`Hierarchy::probe`] finds out what this machine lets us do; [`Hierarchy::plan`] turns limits into folders and
//! settings (pure); the supervisor makes them, the first process of the container joins, and both are removed at the end.

use std::{
    collections::BTreeSet,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

/// The folder, below the root of each hierarchy, in which all of ours are.
const PARENT: &str = "ronde";
/// The kernel counts CPU time in periods of this length.
const PERIOD_US: u64 = 100_000;

/// The control groups of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    pub folders: Vec<Folder>,
}

/// One folder of one hierarchy with what is written into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    pub path: PathBuf,
    pub settings: Vec<(String, String)>,
    /// What is written into the folder around it, which the containers of a pod share.
    #[serde(default)]
    pub of_pod: Vec<(String, String)>,
}

/// What a container may use; nothing means as much as there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    pub cpu_milli: Option<u64>,
    pub cpu_request_milli: Option<u64>,
    /// Of the whole pod.
    pub pod_processes: Option<u64>,
}

/// What this machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// One tree for everything.
    Unified { root: PathBuf, has_pids: bool },
    /// One tree for each controller that we use.
    Split { memory: Option<PathBuf>, cpu: Option<PathBuf>, pids: Option<PathBuf> },
}

impl Hierarchy {
    /// Finds the hierarchies in which we can make a group, by making one.
    ///
    /// # Errors
    /// Why there is none, in words for the user.
    pub fn probe(root: &Path, instance: &str) -> Result<Self, String> {
        if root.join("cgroup.controllers").exists() {
            let ours = [root.to_owned(), root.join(PARENT), root.join(PARENT).join(instance)];
            let enabled = ours.iter().try_for_each(|folder| make(folder).and_then(|()| enable_controllers(folder)));
            enabled.and_then(|()| try_one(&ours[2])).map_err(|error| error.to_string())?;
            let controllers = fs::read_to_string(ours[2].join("cgroup.subtree_control")).unwrap_or_default();
            let has_pids = controllers.split_whitespace().any(|controller| controller == "pids");
            return Ok(Self::Unified { root: root.to_owned(), has_pids });
        }
        let usable = |controller: &str| {
            let path = root.join(controller);
            let is_there = path.join("cgroup.procs").exists();
            (is_there && try_one(&path.join(PARENT).join(instance)).is_ok()).then_some(path)
        };
        match (usable("memory"), usable("cpu"), usable("pids")) {
            (None, None, None) => Err(format!("no group can be made in {}", root.display())),
            (memory, cpu, pids) => Ok(Self::Split { memory, cpu, pids }),
        }
    }

    /// Whether the number of processes can be limited.
    pub fn limits_processes(&self) -> bool {
        matches!(self, Self::Unified { has_pids: true, .. } | Self::Split { pids: Some(_), .. })
    }

    /// Decides the folders and settings of one container.
    pub fn plan(&self, instance: &str, pod: &str, container: &str, limits: Limits) -> Cgroup {
        let name = Path::new(PARENT).join(instance).join(pod).join(container);
        let folders = match self {
            Self::Unified { root, has_pids } => {
                let mut settings = unified_memory(limits);
                settings.extend(unified_cpu(limits));
                let of_pod = if *has_pids { processes(limits) } else { Vec::new() };
                vec![Folder { path: root.join(&name), settings, of_pod }]
            }
            Self::Split { memory, cpu, pids } => {
                let folder = |root: &Option<PathBuf>, settings, of_pod| {
                    root.as_ref().map(|root| Folder { path: root.join(&name), settings, of_pod })
                };
                let memory = folder(memory, split_memory(limits), Vec::new());
                let cpu = folder(cpu, split_cpu(limits), Vec::new());
                let pids = folder(pids, Vec::new(), processes(limits));
                [memory, cpu, pids].into_iter().flatten().collect()
            }
        };
        Cgroup { folders }
    }

    /// The folders in which an instance keeps its groups.
    pub fn folders_of(root: &Path, instance: &str) -> Vec<PathBuf> {
        let roots = [root.to_owned(), root.join("memory"), root.join("cpu"), root.join("pids")];
        roots.into_iter().map(|root| root.join(PARENT).join(instance)).filter(|path| path.exists()).collect()
    }
}

/// The names of the instances of this user that have groups.
pub fn instances(root: &Path) -> Vec<String> {
    let own = rustix::process::getuid().as_raw();
    let roots = [root.to_owned(), root.join("memory"), root.join("cpu")];
    let parents = roots.iter().filter_map(|root| fs::read_dir(root.join(PARENT)).ok()).flatten();
    let ours = parents.filter_map(|entry| {
        let metadata = entry.as_ref().ok()?.metadata().ok()?;
        (metadata.is_dir() && metadata.uid() == own).then(|| entry.ok()?.file_name().into_string().ok()).flatten()
    });
    ours.collect::<BTreeSet<String>>().into_iter().collect()
}

/// The processes in the groups of an instance, each with its pod.
pub fn processes_of_instance(root: &Path, instance: &str) -> Vec<(String, i32)> {
    let folders = Hierarchy::folders_of(root, instance).into_iter().filter_map(|folder| fs::read_dir(folder).ok());
    let pods = folders.flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pods: BTreeSet<String> = pods.collect();
    pods.into_iter()
        .flat_map(|pod| processes_of(root, instance, &pod).into_iter().map(move |pid| (pod.clone(), pid)))
        .collect()
}

/// The processes in the groups of a pod: what outlived its supervisor, where it had no pid namespace.
pub fn processes_of(root: &Path, instance: &str, pod: &str) -> Vec<i32> {
    let groups = Hierarchy::folders_of(root, instance).into_iter().map(|folder| folder.join(pod));
    let containers = groups.filter_map(|groups| fs::read_dir(groups).ok()).flatten();
    let lists = containers.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("cgroup.procs")).ok());
    let pids = lists.flat_map(|list| list.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>());
    // One that we cannot see is told as zero.
    pids.filter(|pid| *pid > 0).collect()
}

/// Removes the groups of a pod as far as they are empty; returns whether nothing of them is left.
pub fn remove_pod(root: &Path, instance: &str, pod: &str) -> bool {
    let groups = Hierarchy::folders_of(root, instance).into_iter().map(|folder| folder.join(pod));
    // Every one is tried, whatever becomes of the others.
    groups.filter(|folder| !remove_tree(folder)).count() == 0
}

/// Groups are nested three deep: instance, pod, container.
const DEPTH_MAX: usize = 4;

/// Removes empty groups, the innermost first; returns whether nothing is left.
pub fn remove_tree(folder: &Path) -> bool {
    remove_below(folder, 0);
    !folder.exists()
}

fn remove_below(folder: &Path, depth: usize) {
    if depth < DEPTH_MAX {
        let inside = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        inside.filter(|path| path.is_dir()).for_each(|path| remove_below(&path, depth + 1));
    }
    let _ = rustix::fs::rmdir(folder);
}

/// Containers of a pod may have what the others leave; the setting is the same in both versions.
fn processes(limits: Limits) -> Vec<(String, String)> {
    limits.pod_processes.map(|most| ("pids.max".to_owned(), most.to_string())).into_iter().collect()
}

fn unified_memory(limits: Limits) -> Vec<(String, String)> {
    // The whole container dies, not one process of it: half a training job is of no use.
    let group = ("memory.oom.group".to_owned(), "1".to_owned());
    limits.memory_bytes.map(|bytes| ("memory.max".to_owned(), bytes.to_string())).into_iter().chain([group]).collect()
}

fn unified_cpu(limits: Limits) -> Vec<(String, String)> {
    let max = limits.cpu_milli.map(|milli| ("cpu.max".to_owned(), format!("{} {PERIOD_US}", quota(milli))));
    let weight = ("cpu.weight".to_owned(), weight(shares(limits)).to_string());
    max.into_iter().chain([weight]).collect()
}

fn split_memory(limits: Limits) -> Vec<(String, String)> {
    limits.memory_bytes.map(|bytes| ("memory.limit_in_bytes".to_owned(), bytes.to_string())).into_iter().collect()
}

fn split_cpu(limits: Limits) -> Vec<(String, String)> {
    let quota = limits.cpu_milli.map(|milli| ("cpu.cfs_quota_us".to_owned(), quota(milli).to_string()));
    let shares = ("cpu.shares".to_owned(), shares(limits).to_string());
    quota.into_iter().chain([shares]).collect()
}

/// The kernel refuses less than a millisecond.
fn quota(milli: u64) -> u64 {
    (milli * PERIOD_US / 1000).max(1000)
}

fn shares(limits: Limits) -> u64 {
    let milli = limits.cpu_request_milli.or(limits.cpu_milli).unwrap_or(0);
    (milli * 1024 / 1000).clamp(2, 262_144)
}

/// The same share on the scale of the unified hierarchy, 1 to 10000.
fn weight(shares: u64) -> u64 {
    1 + (shares - 2) * 9999 / 262_142
}

fn make(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Makes a group and removes it: that a folder is there does not mean that we may.
fn try_one(parent: &Path) -> io::Result<()> {
    let probe = parent.join("probe");
    make(&probe)?;
    Ok(rustix::fs::rmdir(&probe)?)
}

fn enable_controllers(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path.join("cgroup.subtree_control")).and_then(|mut file| {
        use io::Write as _;
        file.write_all(b"+memory +cpu +pids").or_else(|_| file.write_all(b"+memory +cpu"))
    })
}

impl Cgroup {
    /// Makes the folders and writes the settings.
    pub fn create(&self) -> io::Result<()> {
        for folder in &self.folders {
            make(&folder.path)?;
            if let Some(parent) = folder.path.parent()
                && parent.join("cgroup.subtree_control").exists()
            {
                let ancestors: Vec<&Path> = parent.ancestors().take(2).collect();
                for ancestor in ancestors.into_iter().rev() {
                    enable_controllers(ancestor)?;
                }
            }
            for (file, value) in &folder.settings {
                fs::write(folder.path.join(file), value)?;
            }
            for (file, value) in &folder.of_pod {
                fs::write(folder.path.with_file_name(file), value)?;
            }
        }
        Ok(())
    }

    /// Puts this process into the groups.
    pub fn join(&self) -> io::Result<()> {
        self.folders.iter().try_for_each(|folder| fs::write(folder.path.join("cgroup.procs"), "0"))
    }

    /// Whether the kernel has killed a process in the group because it had used up its memory.
    pub fn has_run_out_of_memory(&self) -> bool {
        let count = |path: &Path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
            line.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0)
        };
        let files = ["memory.events", "memory.oom_control"];
        self.folders.iter().any(|folder| files.iter().any(|file| count(&folder.path.join(file)) > 0))
    }

    /// Removes the folders; the last processes of a group may take a moment to leave it.
    pub fn remove(&self) {
        for folder in &self.folders {
            let _ = rustix::fs::rmdir(&folder.path);
            // The pod's folder goes with its last container.
            let _ = folder.path.parent().map(rustix::fs::rmdir);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Hierarchy, Limits};

    fn check(what: &str, hierarchy: &Hierarchy, limits: Limits, expected: &[&str]) {
        let cgroup = hierarchy.plan("i1", "pod", "c", limits);
        let lines: Vec<String> = cgroup
            .folders
            .iter()
            .flat_map(|folder| {
                let of_pod = folder.path.parent().unwrap().display();
                let own =
                    folder.settings.iter().map(|(file, value)| format!("{}/{file}={value}", folder.path.display()));
                own.chain(folder.of_pod.iter().map(move |(file, value)| format!("{of_pod}/{file}={value}")))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(lines, expected, "{what}");
    }

    #[test]
    fn limits_become_settings() {
        let tree = |path: &str| Some(PathBuf::from(path));
        let split = Hierarchy::Split { memory: tree("/m"), cpu: tree("/c"), pids: tree("/p") };
        let unified = Hierarchy::Unified { root: PathBuf::from("/u"), has_pids: true };
        let limits = Limits {
            memory_bytes: Some(1 << 20),
            cpu_milli: Some(500),
            cpu_request_milli: Some(250),
            pod_processes: Some(1000),
        };
        check(
            "all, split",
            &split,
            limits,
            &[
                "/m/ronde/i1/pod/c/memory.limit_in_bytes=1048576",
                "/c/ronde/i1/pod/c/cpu.cfs_quota_us=50000",
                "/c/ronde/i1/pod/c/cpu.shares=256",
                "/p/ronde/i1/pod/pids.max=1000",
            ],
        );
        check(
            "all, unified",
            &unified,
            limits,
            &[
                "/u/ronde/i1/pod/c/memory.max=1048576",
                "/u/ronde/i1/pod/c/memory.oom.group=1",
                "/u/ronde/i1/pod/c/cpu.max=50000 100000",
                "/u/ronde/i1/pod/c/cpu.weight=10",
                "/u/ronde/i1/pod/pids.max=1000",
            ],
        );
        let few = Hierarchy::Unified { root: PathBuf::from("/u"), has_pids: false };
        let processes = Limits { pod_processes: Some(1000), ..Limits::default() };
        let without = ["/u/ronde/i1/pod/c/memory.oom.group=1", "/u/ronde/i1/pod/c/cpu.weight=1"];
        check("processes are not counted here", &few, processes, &without);
        check("nothing asked", &split, Limits::default(), &["/c/ronde/i1/pod/c/cpu.shares=2"]);
        let tiny = Limits { cpu_milli: Some(1), ..Limits::default() };
        check(
            "less than the kernel takes",
            &split,
            tiny,
            &["/c/ronde/i1/pod/c/cpu.cfs_quota_us=1000", "/c/ronde/i1/pod/c/cpu.shares=2"],
        );
    }
}
