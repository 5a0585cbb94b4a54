//! What a cluster's own processes take: its daemons, and those it adds for each pod; not what pods run.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;

/// Long enough to see a heartbeat.
const REST: Duration = Duration::from_secs(15);
/// Ticks that the kernel counts in a second, on every machine that matters.
const TICKS_PER_SECOND: f64 = 100.0;
/// One per pod.
const SHIM: &str = "containerd-shim-runc-v2";
/// What the image of sandboxes runs, one per pod.
const PAUSE: &str = "busybox-pause";

pub enum Usage {
    /// Everything that runs the program; all but the daemon are there for pods.
    Ronde { program: PathBuf, daemon: u32 },
    /// Daemons by their ids, and a node whose processes share a namespace.
    Kubernetes { control_plane: Vec<u32>, namespace: PathBuf },
}

/// The processes of a cluster at some moment.
struct Processes {
    daemons: Vec<u32>,
    of_pods: Vec<u32>,
}

impl Usage {
    pub fn ronde(program: &Path, daemon: u32) -> Self {
        Self::Ronde { program: program.to_owned(), daemon }
    }

    /// `node` is the process that made the namespace, and stands outside of it.
    pub fn kubernetes(control_plane: Vec<u32>, node: u32) -> anyhow::Result<Self> {
        let namespace = std::fs::read_link(format!("/proc/{node}/ns/pid_for_children")).context("no node")?;
        Ok(Self::Kubernetes { control_plane, namespace })
    }

    /// The memory of the processes there for pods; shared pages are counted once.
    pub fn pods_mb(&self) -> anyhow::Result<f64> {
        Ok(megabytes(&self.processes()?.of_pods))
    }

    pub fn daemons_mb(&self) -> anyhow::Result<f64> {
        Ok(megabytes(&self.processes()?.daemons))
    }

    /// The share of one core that all of them take while nothing happens.
    pub async fn percent_at_rest(&self) -> anyhow::Result<f64> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = self.ticks()?;
        tokio::time::sleep(REST).await;
        // One tick is the least that can be seen.
        let ticks = (self.ticks()? - before).max(1.0);
        Ok(ticks / TICKS_PER_SECOND / REST.as_secs_f64() * 100.0)
    }

    fn ticks(&self) -> anyhow::Result<f64> {
        let Processes { daemons, of_pods } = self.processes()?;
        Ok(daemons.into_iter().chain(of_pods).filter_map(ticks_of).sum())
    }

    fn processes(&self) -> anyhow::Result<Processes> {
        let all = all_pids()?.into_iter();
        Ok(match self {
            Self::Ronde { program, daemon } => {
                let of_pods = all.filter(|pid| pid != daemon && link(*pid, "exe").as_ref() == Some(program));
                Processes { daemons: vec![*daemon], of_pods: of_pods.collect() }
            }
            Self::Kubernetes { control_plane, namespace } => {
                let (inside, outside): (Vec<u32>, Vec<u32>) =
                    all.partition(|pid| link(*pid, "ns/pid").as_ref() == Some(namespace));
                let (shims, daemons): (Vec<u32>, Vec<u32>) =
                    inside.into_iter().partition(|pid| link(*pid, "exe").is_some_and(|exe| exe.ends_with(SHIM)));
                let is_pause = |pid: &u32| {
                    link(*pid, "exe").is_some_and(|exe| exe.ends_with(PAUSE))
                        && parent_of(*pid).is_some_and(|parent| shims.contains(&parent))
                };
                let pauses: Vec<u32> = outside.into_iter().filter(is_pause).collect();
                Processes {
                    daemons: control_plane.iter().copied().chain(daemons).collect(),
                    of_pods: shims.into_iter().chain(pauses).collect(),
                }
            }
        })
    }
}

/// What a group of processes has used.
#[derive(Debug, Clone, Copy, Default)]
pub struct Group {
    pub cpu_seconds: f64,
    pub memory_mb: f64,
}

/// Returns what the processes of a group use, and have used since they began.
pub fn group_of(leader: u32) -> Group {
    let all = all_pids().unwrap_or_default().into_iter();
    let members: Vec<u32> = all.filter(|pid| stat_field(*pid, 2) == Some(leader)).collect();
    let ticks: f64 = members.iter().filter_map(|pid| ticks_of(*pid)).sum();
    Group { cpu_seconds: ticks / TICKS_PER_SECOND, memory_mb: megabytes(&members) }
}

fn all_pids() -> anyhow::Result<Vec<u32>> {
    let names = std::fs::read_dir("/proc").context("no /proc")?.filter_map(|entry| Some(entry.ok()?.file_name()));
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

fn link(pid: u32, name: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/{name}")).ok()
}

fn megabytes(pids: &[u32]) -> f64 {
    pids.iter().filter_map(|pid| proportional_kilobytes(*pid)).sum::<f64>() / 1024.0
}

/// Returns the memory of a process; what it shares with others is divided among them.
pub fn proportional_kilobytes(pid: u32) -> Option<f64> {
    let sizes = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    sizes.lines().find_map(|line| line.strip_prefix("Pss:"))?.split_whitespace().next()?.parse().ok()
}

fn parent_of(pid: u32) -> Option<u32> {
    stat_field(pid, 1)
}

/// Returns the seconds of processor time that a process has used.
pub fn processor_seconds(pid: u32) -> Option<f64> {
    Some(ticks_of(pid)? / TICKS_PER_SECOND)
}

fn ticks_of(pid: u32) -> Option<f64> {
    Some(stat_field::<f64>(pid, 11)? + stat_field::<f64>(pid, 12)?)
}

/// Returns a field of the kernel's line about a process, counted from behind its name.
fn stat_field<T: std::str::FromStr>(pid: u32, place: usize) -> Option<T> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(place)?.parse().ok()
}
