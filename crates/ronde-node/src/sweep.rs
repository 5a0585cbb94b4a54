//! Takes everything of a node down without a daemon: pods, links, control groups. For `ronde down`.
//!
//! Works from what is on disk, so it also cleans up after `kill -9`. Says nothing to the API: the next `ronde up` finds
//! the sandboxes gone and goes on from there.

use std::{io, path::Path, time::Duration};

use fs_err as fs;
use tokio::time::{sleep, timeout};

use crate::{
    net::{self, NetworkPlace},
    orphans,
    sandbox::cgroup::{self, Hierarchy},
    start::{CGROUPS, instance},
    supervisor::{client, control::Order, folder::PodFolder, record, remove_files},
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
pub async fn sweep(data_dir: &Path, place: Option<&NetworkPlace>) -> io::Result<Swept> {
    let folder = data_dir.join("node");
    if !folder.exists() {
        return Ok(Swept::default());
    }
    let pods: Vec<PodFolder> = pod_folders(&folder)?;
    // One that cannot be stopped keeps no other.
    let instance = instance(data_dir);
    let stopped = futures::future::join_all(pods.iter().map(|pod| stop(pod, &instance))).await;
    let stopped = stopped.into_iter().collect::<io::Result<Vec<bool>>>()?;
    if let Some(place) = place {
        net::remove_all(&instance, &folder, place).await.map_err(io::Error::other)?;
    }
    remove_cgroups(&instance);
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
async fn stop(pod: &PodFolder, instance: &str) -> io::Result<bool> {
    let is_living = client::living(pod)?.is_some();
    // One that is killed meanwhile cannot be asked any more; what it leaves behind is ended below.
    if is_living
        && let Err(error) = end_containers(pod).await
        && !client::has_hung_up(&error)
    {
        return Err(error);
    }
    client::retire(pod).await?;
    let uid = pod.path().file_name().unwrap_or_default().to_string_lossy();
    let has_groups = !Hierarchy::folders_of(Path::new(CGROUPS), instance).is_empty();
    let orphans = orphans::end(instance, &uid, !has_groups).await?;
    // What containers have changed is of no use to the next ones.
    for (name, records) in record::read_all(pod)? {
        for record in records {
            remove_files(pod, &name, record.attempt)?;
        }
    }
    Ok(is_living || orphans > 0)
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

/// Removes the groups of an instance, as far as they are empty.
pub(crate) fn remove_cgroups(instance: &str) {
    for folder in Hierarchy::folders_of(Path::new(CGROUPS), instance) {
        cgroup::remove_tree(&folder);
        // The one that all instances share goes with the last of them.
        let _ = folder.parent().map(rustix::fs::rmdir);
    }
}
