//! One instance of ronde with everything it holds: how it is started, killed, asked, and its processes found.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use fs_err as fs;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use ronde_node::supervisor::{client::living, folder::PodFolder, record};
use ronde_sim::{SmallDisk, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A start takes a fraction of a second; a machine under load gets a hundred times that.
pub const LIMIT: Duration = Duration::from_secs(120);

const LOG_LINES: usize = 40;

/// Room for the pods of the chaos many times over.
const DISK: &str = "size=300m";

pub struct Instance {
    /// The data directory, where there can be a disk of its own. Taken away before the folder is.
    pub disk: Option<SmallDisk>,
    folder: TempDir,
    pub client: Client,
}

impl Instance {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("notes")).unwrap();
        let disk = SmallDisk::mount_where_allowed(&folder.path().join("data"), DISK);
        up(folder.path());
        let client = connect(folder.path()).await;
        Self { disk, folder, client }
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Where pods have their files. The data directory itself may be a disk, which every process sees.
    pub fn node(&self) -> PathBuf {
        self.data_dir().join("node")
    }

    /// A folder of the machine that pods write into.
    pub fn notes(&self) -> PathBuf {
        self.folder.path().join("notes")
    }

    /// Runs a verb to its end.
    pub fn run(&self, words: &[&str]) {
        run(self.folder.path(), words);
    }

    /// Starts it again after a death.
    pub async fn revive(&mut self) {
        up(self.folder.path());
        self.client = connect(self.folder.path()).await;
    }

    /// Kills the daemon and waits until the kernel has noticed.
    pub fn kill_daemon(&self) {
        let pid = self.status()["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        kill(pid.expect("a daemon that has said that it is ready runs"));
        wait_until("the killed daemon is gone", LIMIT, || (self.status()["running"] == false).then_some(()));
    }

    fn status(&self) -> Value {
        let output = command(self.folder.path(), &["status", "-o", "json"]).stdout(Stdio::piped()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts a daemon and kills it before or after it is ready.
    pub fn stumble(&self, after: Duration) {
        let mut child = command(self.folder.path(), &["up", "--listen", "127.0.0.1:0"]).spawn().unwrap();
        std::thread::sleep(after);
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// The last lines of the daemon's log, for the report of a failure.
    pub fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.data_dir().join("ronde.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    pub fn pods(&self) -> Vec<PodFolder> {
        let entries = fs::read_dir(self.data_dir().join("node/pods")).into_iter().flatten();
        entries.filter_map(|entry| Some(PodFolder(entry.ok()?.path()))).collect()
    }

    pub fn supervisors(&self) -> Vec<u32> {
        self.pods().iter().filter_map(|pod| living(pod).ok().flatten()).collect()
    }

    /// The first processes of all containers that have not ended, with those below them.
    pub fn container_processes(&self) -> Vec<u32> {
        let records = self.pods().into_iter().filter_map(|pod| record::read_all(&pod).ok());
        let running = records.flat_map(|all| all.into_values().flatten()).filter(|record| record.end.is_none());
        let first = running.filter_map(|record| record.pid).filter(|pid| self.owns(*pid));
        first.flat_map(|pid| [vec![pid], children(pid)].concat()).collect()
    }

    /// Whether a process sees files of this instance's pods; nobody else's does.
    pub fn owns(&self, pid: u32) -> bool {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        mounts.contains(self.node().to_str().unwrap()) || command_line(pid).contains(self.data_dir().to_str().unwrap())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = command(self.folder.path(), &["down"]).output();
        self.disk.take();
    }
}

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ronde"));
    command.args(words).env("KUBECONFIG", folder.join("kubeconfig")).env("RONDE_DATA_DIR", folder.join("data"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn run(folder: &Path, words: &[&str]) {
    let output = command(folder, words).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ronde {}: {}\n{said}", words.join(" "), output.status);
}

fn up(folder: &Path) {
    run(folder, &["up", "--detach", "--listen", "127.0.0.1:0"]);
}

async fn connect(folder: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(folder.join("kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Kills a process, unless it has ended by itself.
pub fn kill(pid: u32) {
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
}

/// Whether a process is there and not only a zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

pub fn command_line(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
}

fn children(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
