//! What a container is to its supervisor: plain data, sent as JSON over the control socket.
//!
//! Built by the worker from a pod; nothing in it refers to Kubernetes any more.

use ronde_process::{Credentials, Program};
use serde::{Deserialize, Serialize};

use super::{cgroup::Cgroup, layers::Layer};

/// Everything that is needed to start one attempt of a container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ContainerSpec {
    pub name: String,
    pub attempt: u32,
    pub program: Program,
    pub credentials: Credentials,
    pub root: Root,
    pub mounts: Vec<Mount>,
    pub pids: Pids,
    pub terminal: Terminal,
    pub cgroup: Option<Cgroup>,
}

/// Where the files of a container come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Root {
    /// The machine's own files, changed by nobody but this container.
    Layers {
        layers: Vec<Layer>,
        read_only: bool,
        /// Folders that look empty inside.
        hidden: Vec<String>,
        /// Paths of an image that stay writable where the root is not: its own volumes.
        #[serde(default)]
        volumes: Vec<String>,
        /// Devices of the machine beyond those that everybody has.
        devices: Vec<String>,
        /// Whether the kernel wants the overlay's marks in `user.` attributes: in a user namespace it does.
        user_attributes: bool,
    },
    /// The machine as it is: no isolation at all.
    Machine,
}

/// Something mounted on top of the root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mount {
    pub source: Source,
    /// A path in the container; missing folders are made.
    pub target: String,
    pub read_only: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Source {
    /// A file or folder of the machine; `inside` is a path below it that may not lead out of it.
    Path {
        path: String,
        inside: Option<String>,
    },
    Memory {
        bytes_max: Option<u64>,
    },
}

/// Which processes a container sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pids {
    Own,
    Pod,
    Machine,
}

/// What the standard streams of the main process are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    pub tty: bool,
    pub stdin: bool,
    /// The input ends when the first client that attached goes away.
    pub stdin_once: bool,
}
