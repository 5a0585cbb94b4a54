//! What an instance remembers about the kubeconfig it changed, so that `ronde down` can undo it, also after `kill -9`.
//!
//! One small JSON file in the data directory, written before the kubeconfig is touched.

use std::{
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::{entries::Selection, file::write_whole};

const FILE: &str = "kubeconfig-record.json";
const VERSION: u32 = 1;

/// The change that is to be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    version: u32,
    /// The kubeconfig that holds our entries.
    pub kubeconfig: PathBuf,
    /// The context that was selected before ours.
    pub previous_context: Selection,
    /// Whether there was no such file before.
    pub created: bool,
}

impl Record {
    pub fn new(kubeconfig: PathBuf, previous_context: Selection, created: bool) -> Self {
        Self { version: VERSION, kubeconfig, previous_context, created }
    }

    /// Returns the record of a data directory, if there is one that we understand.
    pub fn load(data_dir: &Path) -> Option<Self> {
        let text = fs::read(data_dir.join(FILE)).ok()?;
        serde_json::from_slice(&text).ok().filter(|record: &Self| record.version == VERSION)
    }

    pub fn store(&self, data_dir: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        write_whole(&data_dir.join(FILE), &text)
    }

    pub fn forget(data_dir: &Path) -> io::Result<()> {
        match fs::remove_file(data_dir.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_stable() {
        let record = Record::new("/home/ada/.kube/config".into(), Some("kind-dev".into()), false);
        let golden =
            r#"{"version":1,"kubeconfig":"/home/ada/.kube/config","previousContext":"kind-dev","created":false}"#;
        assert_eq!(serde_json::to_string(&record).unwrap(), golden);
        assert_eq!(serde_json::from_str::<Record>(golden).unwrap(), record);
    }

    #[test]
    fn a_record_is_stored_loaded_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Record::load(dir.path()), None);
        let record = Record::new("/k".into(), None, true);
        record.store(dir.path()).unwrap();
        assert_eq!(Record::load(dir.path()), Some(record));
        Record::forget(dir.path()).unwrap();
        Record::forget(dir.path()).unwrap();
        assert_eq!(Record::load(dir.path()), None);
    }

    #[test]
    fn a_record_of_an_unknown_version_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), r#"{"version":2,"kubeconfig":"/k","created":false}"#).unwrap();
        assert_eq!(Record::load(dir.path()), None);
    }
}
