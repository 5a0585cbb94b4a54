//! The processes of the demo's workers, as this machine sees them.

use std::{collections::BTreeSet, path::Path};

use fs_err as fs;
use rustix::process::{Pid, Signal, kill_process};

use super::story::SCRIPT;

/// Returns the processes that train until there is the file `end`, which no other demo has.
pub fn ranks(end: &Path) -> BTreeSet<i32> {
    let end = end.as_os_str().as_encoded_bytes();
    let trains = |pid: &i32| {
        let words = words(*pid, "cmdline");
        words.get(1).is_some_and(|word| word == SCRIPT.as_bytes()) && words.iter().any(|word| word == end)
    };
    all().filter(trains).collect()
}

/// Returns all processes of the worker that one of these ranks is in.
pub fn of_worker(name: &str, ranks: &BTreeSet<i32>) -> Vec<i32> {
    // What the worker started itself has the first; a rank has the variables of the launcher, and the second.
    let marks = ["HOSTNAME", "HOROVOD_HOSTNAME"].map(|variable| format!("{variable}={name}").into_bytes());
    let is_in_worker = |pid: i32| words(pid, "environ").iter().any(|word| marks.contains(word));
    let Some(rank) = ranks.iter().copied().find(|pid| is_in_worker(*pid)) else { return Vec::new() };
    // A worker of the same name may be in another cluster of this machine.
    let home = namespace(rank);
    all().filter(|pid| is_in_worker(*pid) && namespace(*pid) == home).collect()
}

/// Returns the name of the worker that a rank is in.
pub fn worker_of(rank: i32) -> Option<String> {
    let words = words(rank, "environ");
    let name = words.iter().find_map(|word| word.strip_prefix(b"HOROVOD_HOSTNAME="))?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Kills processes; those that end with the others need not be.
pub fn kill(pids: &[i32]) {
    for pid in pids.iter().copied().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn words(pid: i32, file: &str) -> Vec<Vec<u8>> {
    // One that has ended meanwhile has no words.
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

fn namespace(pid: i32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}
