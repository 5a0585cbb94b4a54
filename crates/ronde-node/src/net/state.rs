//! What the network remembers in the state folder, in one small file.
//!
//! The links themselves are remembered by the kernel; here is only what it cannot tell: the chosen subnets, and what of
//! the machine was changed and must be put back.

use std::{
    io,
    path::{Path, PathBuf},
};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::{NetError, subnets::Subnets};

const VERSION: u32 = 1;

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    version: u32,
    pods: Ipv4Net,
    services: Ipv4Net,
    /// Whether it was we who let the machine forward packets.
    pub forwarding_enabled: bool,
}

impl State {
    pub fn new(subnets: Subnets) -> Self {
        Self { version: VERSION, pods: subnets.pods, services: subnets.services, forwarding_enabled: false }
    }

    pub fn subnets(&self) -> Subnets {
        Subnets { pods: self.pods, services: self.services }
    }

    /// Reads the file; none if there is none yet.
    ///
    /// # Errors
    /// If it cannot be read or is not ours.
    pub fn read(state_dir: &Path) -> Result<Option<Self>, NetError> {
        let path = path(state_dir);
        let text = match fs_err::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(NetError::State)?,
        };
        let state: Self =
            serde_json::from_slice(&text).map_err(|source| NetError::Damaged { path: path.clone(), source })?;
        if state.version == VERSION { Ok(Some(state)) } else { Err(NetError::Version { path, version: state.version }) }
    }

    /// Replaces the file as a whole.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, state_dir: &Path) -> Result<(), NetError> {
        let path = path(state_dir);
        let new = path.with_extension("new");
        let text = serde_json::to_vec_pretty(self).expect("plain data can be written as JSON");
        fs_err::create_dir_all(state_dir)
            .and_then(|()| fs_err::write(&new, text))
            .and_then(|()| fs_err::rename(&new, &path))
            .map_err(NetError::State)
    }
}

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("network.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_written() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("net");
        assert_eq!(State::read(&folder).unwrap(), None, "there is none at first");
        let mut state = State::new(super::super::subnets::choose(&[]).unwrap());
        state.forwarding_enabled = true;
        state.write(&folder).unwrap();
        assert_eq!(State::read(&folder).unwrap(), Some(state));
    }

    #[test]
    fn the_format_is_kept() {
        let golden = r#"{
  "version": 1,
  "pods": "10.244.0.0/16",
  "services": "10.96.0.0/16",
  "forwarding_enabled": false
}"#;
        let state = State::new(super::super::subnets::choose(&[]).unwrap());
        assert_eq!(serde_json::to_string_pretty(&state).unwrap(), golden);
    }

    #[test]
    fn a_foreign_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let write = |text: &str| fs_err::write(directory.path().join("network.json"), text).unwrap();
        write("{");
        assert!(matches!(State::read(directory.path()), Err(NetError::Damaged { .. })));
        write(r#"{"version": 2, "pods": "10.0.0.0/16", "services": "10.1.0.0/16", "forwarding_enabled": false}"#);
        assert!(matches!(State::read(directory.path()), Err(NetError::Version { version: 2, .. })));
    }
}
