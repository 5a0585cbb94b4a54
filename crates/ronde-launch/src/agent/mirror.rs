//! Keeps copies of a job's host list, and lets the agents of hosts that leave it go.
//!
//! The source is a file of a ConfigMap volume, which changes by a swap of links: it is read again and again
//! ([`POLL`]), never watched. Copies are written whole or not at all. What is in the files is the controller's affair:
//! here only the names of the hosts are read.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use fs_err as fs;
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{MissedTickBehavior, interval, sleep},
};

use super::{client, dial::Dialer};

/// A change reaches the launcher in this time; reading a small file so often costs nothing that shows.
const POLL: Duration = Duration::from_millis(50);
/// The name of the list in a folder, and of the same list with lines `host slots=n`, which is beside it.
const LIST: &str = "hostfile";
const DEEPSPEED_LIST: &str = "deepspeed-hostfile";
/// An agent that cannot be reached for so long is gone, or of no use to anybody.
const RELEASE_TRIES: u32 = 120;
const RELEASE_PAUSE: Duration = Duration::from_millis(500);

/// Where a list comes from and where it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirror {
    /// A file, or a folder with a file `hostfile`. Its lines are `host:slots`.
    pub from: PathBuf,
    /// Get the list.
    pub to: Vec<PathBuf>,
    /// Get the file `deepspeed-hostfile` from beside the list.
    pub deepspeed_to: Vec<PathBuf>,
}

/// The list, and the one for DeepSpeed if anybody wants it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HostLists {
    hosts: String,
    deepspeed: Option<String>,
}

impl Mirror {
    /// Copies the lists once, and returns them.
    pub(super) fn copy(&self) -> io::Result<HostLists> {
        let lists = self.read()?;
        self.write(&lists)?;
        Ok(lists)
    }

    /// Copies the lists whenever they change, and releases the hosts that leave, as long as they stay away.
    pub(super) async fn follow(self, mut lists: HostLists, dialer: Dialer) {
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut releases = Releases::default();
        loop {
            ticks.tick().await;
            // Between two versions there may be none, for a moment.
            let Ok(new) = self.read() else { continue };
            if new == lists {
                continue;
            }
            if let Err(error) = self.write(&new) {
                tracing::warn!(%error, "cannot copy the host list");
                continue;
            }
            releases.change(&names(&lists.hosts), &names(&new.hosts), &dialer);
            lists = new;
        }
    }

    fn read(&self) -> io::Result<HostLists> {
        let path = if self.from.is_dir() { self.from.join(LIST) } else { self.from.clone() };
        let hosts = fs::read_to_string(&path)?;
        let has_deepspeed = !self.deepspeed_to.is_empty();
        let deepspeed = has_deepspeed.then(|| fs::read_to_string(path.with_file_name(DEEPSPEED_LIST))).transpose()?;
        Ok(HostLists { hosts, deepspeed })
    }

    fn write(&self, lists: &HostLists) -> io::Result<()> {
        self.to.iter().try_for_each(|target| replace(target, &lists.hosts))?;
        let Some(deepspeed) = &lists.deepspeed else { return Ok(()) };
        self.deepspeed_to.iter().try_for_each(|target| replace(target, deepspeed))
    }
}

/// The agents that are being told to go, by host. Dropped: no more are told.
#[derive(Default)]
struct Releases {
    tasks: JoinSet<()>,
    by_host: Vec<(String, AbortHandle)>,
}

impl Releases {
    fn change(&mut self, old: &BTreeSet<String>, new: &BTreeSet<String>, dialer: &Dialer) {
        while self.tasks.try_join_next().is_some() {}
        self.by_host.retain(|(host, task)| {
            let is_back = new.contains(host);
            if is_back {
                task.abort();
            }
            !is_back && !task.is_finished()
        });
        for host in old.difference(new) {
            tracing::info!(host, "left the job");
            let task = self.tasks.spawn(release(host.clone(), dialer.clone()));
            self.by_host.push((host.clone(), task));
        }
    }
}

async fn release(host: String, dialer: Dialer) {
    for _ in 0..RELEASE_TRIES {
        let why = match dialer.dial_once(&host).await {
            Ok(channel) => match client::release(channel).await {
                Ok(()) => return,
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        tracing::debug!(host, why, "cannot reach an agent to release it");
        sleep(RELEASE_PAUSE).await;
    }
    tracing::warn!(host, "cannot tell its agent that the host left the job");
}

fn names(list: &str) -> BTreeSet<String> {
    let lines = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(':').map_or(line, |(name, _)| name).to_owned()).collect()
}

/// Writes a file so that a reader sees the old text or the new one.
fn replace(target: &Path, text: &str) -> io::Result<()> {
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(io::Error::other(format!("`{}` is not the path of a file", target.display())));
    };
    fs::create_dir_all(folder)?;
    let draft = folder.join(format!(".{}.{}", name.display(), std::process::id()));
    fs::write(&draft, text)?;
    fs::rename(&draft, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_copied_in_both_forms() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("hostfile"), "a-worker-0:2\na-worker-1:2\n").unwrap();
        fs::write(at("deepspeed-hostfile"), "a-worker-0 slots=2\na-worker-1 slots=2\n").unwrap();
        let mirror = Mirror {
            from: folder.path().to_owned(),
            to: vec![at("edl/hostfile")],
            deepspeed_to: vec![at("job/hosts")],
        };
        mirror.copy().unwrap();
        assert_eq!(fs::read_to_string(at("edl/hostfile")).unwrap(), "a-worker-0:2\na-worker-1:2\n");
        assert_eq!(fs::read_to_string(at("job/hosts")).unwrap(), "a-worker-0 slots=2\na-worker-1 slots=2\n");
        assert_eq!(fs::read_dir(at("edl")).unwrap().count(), 1, "no draft is left behind");
        let missing = Mirror { from: at("none"), ..mirror };
        assert!(missing.copy().unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn names_of_a_list() {
        let check = |list: &str, expected: &[&str]| {
            assert_eq!(names(list).iter().map(String::as_str).collect::<Vec<_>>(), expected, "{list}");
        };
        check("", &[]);
        check("b:1\n\na:2\n\n", &["a", "b"]);
        check("# nobody:1\na\r\n", &["a"]);
    }
}
