//! Takes everything of a node down without a daemon: pods, links, control groups. For `ronde down`.
//!
//! Works from what is on disk, so it also cleans up after `kill -9`. Says nothing to the API: the next `ronde up` finds
//! the sandboxes gone and goes on from there.

use std::{io, path::Path, time::Duration};

use fs_err as fs;
use tokio::time::{sleep, timeout};

use crate::{
    net::{self, Place},
    sandbox::cgroup::Hierarchy,
    start::{CGROUPS, instance},
    supervisor::{client, control::Order, folder::PodFolder, record},
};

/// What containers get to end by themselves.
const GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);
const SIGTERM: i32 = 15;

/// What was found and taken down.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub pods: usize,
}

/// Takes everything down that belongs to a data directory.
///
/// Without a place there was no network to take away.
pub async fn sweep(data_dir: &Path, place: Option<&Place>) -> io::Result<Swept> {
    let folder = data_dir.join("node");
    if !folder.exists() {
        return Ok(Swept::default());
    }
    let pods: Vec<PodFolder> = pod_folders(&folder)?;
    // One that cannot be stopped keeps no other.
    let stopped = futures::future::join_all(pods.iter().map(stop)).await;
    let stopped = stopped.into_iter().collect::<io::Result<Vec<bool>>>()?;
    if let Some(place) = place {
        net::remove_all(&instance(data_dir), &folder, place).await.map_err(io::Error::other)?;
    }
    remove_cgroups(&instance(data_dir));
    Ok(Swept { pods: stopped.into_iter().filter(|was_living| *was_living).count() })
}

/// Counts the pods that have a living supervisor.
pub fn running_pods(folder: &Path) -> usize {
    let pods = pod_folders(folder).unwrap_or_default();
    pods.iter().filter(|pod| matches!(client::living(pod), Ok(Some(_)))).count()
}

fn pod_folders(folder: &Path) -> io::Result<Vec<PodFolder>> {
    match fs::read_dir(folder.join("pods")) {
        Ok(entries) => entries.map(|entry| Ok(PodFolder(entry?.path()))).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Ends what runs in a pod, gently first; returns whether anything did.
async fn stop(pod: &PodFolder) -> io::Result<bool> {
    let is_living = client::living(pod)?.is_some();
    if is_living {
        end_containers(pod).await?;
    }
    client::retire(pod).await?;
    Ok(is_living)
}

async fn end_containers(pod: &PodFolder) -> io::Result<()> {
    for container in running(pod)? {
        client::order(pod, &Order::Signal { container, signal: SIGTERM, all: false }).await?;
    }
    let ended = async {
        while running(pod).is_ok_and(|running| !running.is_empty()) {
            sleep(POLL).await;
        }
    };
    let _ = timeout(GRACE, ended).await;
    Ok(())
}

fn running(pod: &PodFolder) -> io::Result<Vec<String>> {
    let all = record::read_all(pod)?;
    let runs = |records: &Vec<record::Record>| records.last().is_some_and(|record| record.end.is_none());
    Ok(all.into_iter().filter(|(_, records)| runs(records)).map(|(name, _)| name).collect())
}

/// Removes empty groups, the innermost first.
fn remove_cgroups(instance: &str) {
    for folder in Hierarchy::folders_of(Path::new(CGROUPS), instance) {
        remove_tree(&folder, 0);
        // The one that all instances share goes with the last of them.
        let _ = folder.parent().map(rustix::fs::rmdir);
    }
}

/// Groups are nested three deep: instance, pod, container.
const DEPTH_MAX: usize = 4;

fn remove_tree(folder: &Path, depth: usize) {
    if depth < DEPTH_MAX {
        let inside = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        inside.filter(|path| path.is_dir()).for_each(|path| remove_tree(&path, depth + 1));
    }
    let _ = rustix::fs::rmdir(folder);
}
