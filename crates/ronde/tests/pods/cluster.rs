//! A machine with nodes on it, and one that tests share while they run.

use std::sync::{Arc, Mutex, Weak};

use fs_err as fs;
use ronde_sim::skip;

use crate::sandbox::Sandbox;

/// The machine that transcripts share. It ends with the last of them that uses it.
static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

/// A `ronde up` with nodes; `ronde down` comes with the end of its sandbox.
pub struct Cluster {
    pub sandbox: Sandbox,
}

impl Cluster {
    /// Starts an instance, or skips the test where pods cannot have namespaces.
    pub fn start(sandbox: Sandbox, nodes: &str) -> Option<Self> {
        let cluster = Self { sandbox };
        let said = cluster.up(nodes);
        if said.contains("pods are plain processes") {
            skip("this machine does not allow namespaces");
            return None;
        }
        Some(cluster)
    }

    /// Runs `ronde up` and returns what it said.
    pub fn up(&self, nodes: &str) -> String {
        self.leave_registry();
        let output = self.sandbox.run(&format!("up --detach --listen 127.0.0.1:0 --registries registries {nodes}"));
        assert!(output.status.success(), "{}", self.sandbox.describe("up", &output));
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
    }

    /// Lets nobody answer for short image names: what they mean must not depend on the network of the machine.
    fn leave_registry(&self) {
        let folder = self.sandbox.path("registries/docker.io");
        fs::create_dir_all(&folder).unwrap();
        // Nothing listens on the port of the old `discard` service.
        fs::write(folder.join("hosts.toml"), "server = \"http://127.0.0.1:9\"\n").unwrap();
    }
}

/// Returns the machine that others use at this moment, or starts it.
pub fn shared() -> Option<Arc<Cluster>> {
    let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(cluster) = shared.upgrade() {
        return Some(cluster);
    }
    let cluster = Arc::new(Cluster::start(Sandbox::new(), "--nodes 1")?);
    *shared = Arc::downgrade(&cluster);
    Some(cluster)
}
