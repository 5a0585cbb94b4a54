//! The pod's sandbox over time: made, found again after a restart, lost, taken down.
//!
//! `sandbox.json` in the pod's folder says that one was made; the supervisor's lock says whether it lives. A supervisor
//! that is wanted without that file is of a sandbox that was not finished: the daemon was killed on the way.

use std::{io, net::Ipv4Addr, path::PathBuf};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    lifecycle::Sandbox,
    supervisor::{
        client,
        folder::PodFolder,
        record::{self, End},
        spare, start,
    },
};

/// What is written down of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub version: u32,
    pub made_at: Timestamp,
    /// None if the pod uses the network of its node.
    pub ip: Option<Ipv4Addr>,
    /// That node, if its network is not the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When its death was noticed.
    pub lost_at: Option<Timestamp>,
}

fn path(folder: &PodFolder) -> PathBuf {
    folder.path().join("sandbox.json")
}

/// Reads what is written down; nothing if there is no sandbox.
pub fn read(folder: &PodFolder) -> io::Result<Option<Made>> {
    match fs::read(path(folder)) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes it down in one step.
pub fn write(folder: &PodFolder, made: &Made) -> io::Result<()> {
    spare::write(&path(folder), made)
}

/// Forgets it: it was taken down as it should be.
pub fn forget(folder: &PodFolder) -> io::Result<()> {
    match fs::remove_file(path(folder)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns how the sandbox is; a death is written down when it is first seen.
pub fn observe(folder: &PodFolder, now: Timestamp) -> io::Result<(Sandbox, Option<Made>)> {
    let Some(mut made) = read(folder)? else {
        let sandbox = if start::is_wanted(folder) { Sandbox::Lost { at: now } } else { Sandbox::Absent };
        return Ok((sandbox, None));
    };
    if let Some(at) = made.lost_at {
        return Ok((Sandbox::Lost { at }, Some(made)));
    }
    if client::living(folder)?.is_some() {
        return Ok((Sandbox::Ready { ip: made.ip.map(Into::into) }, Some(made)));
    }
    made.lost_at = Some(now);
    write(folder, &made)?;
    Ok((Sandbox::Lost { at: now }, Some(made)))
}

/// Writes an end for every container that has none: its supervisor is dead, and it with it.
pub fn record_lost(folder: &PodFolder, at: Timestamp) -> io::Result<()> {
    for (name, records) in record::read_all(folder)? {
        for mut one in records.into_iter().filter(|one| one.end.is_none()) {
            one.end = Some(End::lost(at));
            one.write(&folder.record(&name, one.attempt))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::Pod;

    #[test]
    fn one_that_was_not_finished_is_there_until_it_is_taken_down() {
        let place = tempfile::tempdir().unwrap();
        let folder = PodFolder(place.path().join("pod"));
        let pod = Pod {
            hostname: "h".into(),
            isolated: false,
            host_network: true,
            joins_node: false,
            host_ipc: true,
            memory: Vec::new(),
        };
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(observe(&folder, now).unwrap(), (Sandbox::Absent, None));
        start::want(&folder, &pod).unwrap();
        assert_eq!(observe(&folder, now).unwrap(), (Sandbox::Lost { at: now }, None));
        assert!(start::refuse(&folder).unwrap());
        assert_eq!(observe(&folder, now).unwrap(), (Sandbox::Absent, None));
    }
}
