//! What outlives a pod's supervisor when that is killed: processes that share the machine's processes, control groups.
//!
//! The kernel ends a pid namespace with its first process, and the main program of any other container with its own. What
//! such a program has started is found by its control group, or where there are none by a mark in its environment.

use std::{collections::BTreeSet, io, path::Path, time::Duration};

use fs_err as fs;
use tokio::time::sleep;

use crate::{sandbox::cgroup, start::CGROUPS};

/// The variable that marks the processes of a pod where there are no control groups.
pub const MARK: &str = "RONDE_POD_UID";
/// The one that says of which instance they are.
pub const INSTANCE_MARK: &str = "RONDE_INSTANCE";
/// A killed process is gone after a moment; one that waits for a disk takes longer. Ten seconds in all.
const ROUNDS_MAX: usize = 5000;
const ROUND: Duration = Duration::from_millis(2);

/// Kills what is left of a pod whose supervisor is gone and removes its control groups; returns how many were killed.
///
/// # Errors
/// If something cannot be killed.
pub async fn end(instance: &str, uid: &str, may_be_marked: bool) -> io::Result<usize> {
    let root = Path::new(CGROUPS);
    let (mut killed, mut living) = (BTreeSet::new(), Vec::new());
    for _ in 0..ROUNDS_MAX {
        living = cgroup::processes_of(root, instance, uid);
        if may_be_marked {
            living.extend(marked(uid));
        }
        for pid in &living {
            ronde_process::kill::by_number(*pid)?;
        }
        killed.extend(living.iter().copied());
        if living.is_empty() && cgroup::remove_pod(root, instance, uid) {
            return Ok(killed.len());
        }
        sleep(ROUND).await;
    }
    if living.is_empty() {
        tracing::warn!(uid, "cannot remove the control groups of a pod");
        return Ok(killed.len());
    }
    let numbers: Vec<String> = living.iter().map(ToString::to_string).collect();
    Err(io::Error::other(format!("processes of pod {uid} do not exit: {}", numbers.join(", "))))
}

/// The processes that carry the mark of a pod; those of others cannot be looked at, and are not its.
fn marked(uid: &str) -> Vec<i32> {
    let mark = format!("{MARK}={uid}");
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has_mark = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    numbers.filter(has_mark).collect()
}
