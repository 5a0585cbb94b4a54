//! Where things are in a pod's folder. The layout is shared by the supervisor, the daemon and the clean-up.

use std::path::{Path, PathBuf};

/// The folder of one pod: `<data>/node/pods/<uid>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFolder(pub PathBuf);

impl PodFolder {
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The data directory that the pod belongs to, by the folder's name alone.
    pub fn data_dir(&self) -> Option<&Path> {
        let pods = self.0.parent()?;
        (pods.file_name()? == "pods").then(|| pods.parent()?.parent()).flatten()
    }

    /// What the supervisor was started with.
    pub fn description(&self) -> PathBuf {
        self.0.join("pod.json")
    }

    /// Locked by the supervisor as long as it lives; holds its process id.
    pub fn lock(&self) -> PathBuf {
        self.0.join("supervisor.lock")
    }

    /// The name of the control socket in the folder.
    pub const SOCKET: &'static str = "control.sock";

    /// Memory that the containers share as `/dev/shm`.
    pub fn shared_memory(&self) -> PathBuf {
        self.0.join("shm")
    }

    pub fn volumes(&self) -> PathBuf {
        self.0.join("volumes")
    }

    /// Files that the containers get as theirs: hosts, resolv.conf, hostname.
    pub fn files(&self) -> PathBuf {
        self.0.join("etc")
    }

    pub fn containers(&self) -> PathBuf {
        self.0.join("containers")
    }

    pub fn container(&self, name: &str) -> PathBuf {
        self.containers().join(name)
    }

    pub fn attempt(&self, name: &str, attempt: u32) -> PathBuf {
        self.container(name).join(attempt.to_string())
    }

    pub fn record(&self, name: &str, attempt: u32) -> PathBuf {
        self.attempt(name, attempt).join("record.json")
    }

    /// How other programs enter a running attempt.
    pub fn entry(&self, name: &str, attempt: u32) -> PathBuf {
        self.attempt(name, attempt).join("entry.json")
    }

    pub fn logs(&self, name: &str) -> PathBuf {
        self.0.join("logs").join(name)
    }
}
