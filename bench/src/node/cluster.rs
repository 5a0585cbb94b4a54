//! Starts and stops the clusters that are measured.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::Context as _;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use super::usage::Usage;

/// The daemons of the real control plane, as its script calls them.
const CONTROL_PLANE: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// A running cluster with one node. Either kind keeps its kubeconfig at the same place in its folder.
pub struct Cluster {
    running: Running,
    folder: TempDir,
}

enum Running {
    Ronde { program: PathBuf },
    Kubernetes { script: PathBuf },
}

impl Cluster {
    pub async fn ronde(program: &Path) -> anyhow::Result<Self> {
        Self::up(program, &[]).await
    }

    /// The bare API: no node and no controllers.
    pub async fn api(program: &Path) -> anyhow::Result<Self> {
        Self::up(program, &["--nodes", "0"]).await
    }

    async fn up(program: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let cluster =
            Self { running: Running::Ronde { program: program.canonicalize()? }, folder: tempfile::tempdir()? };
        let words = [&["up", "--detach", "--listen", "127.0.0.1:0"], more].concat();
        let up = cluster.command(&words).stderr(Stdio::inherit()).status();
        anyhow::ensure!(up.await?.success(), "ronde up failed");
        Ok(cluster)
    }

    /// Returns the process of the daemon.
    pub async fn daemon(&self) -> anyhow::Result<u32> {
        let status = self.command(&["status", "-o", "json"]).output().await?;
        let status: Value = serde_json::from_slice(&status.stdout)?;
        Ok(status["pid"].as_u64().context("no process")?.try_into()?)
    }

    /// The script says what it does, and cleans up after itself when it fails.
    pub async fn kubernetes(script: &Path) -> anyhow::Result<Self> {
        Self::kubernetes_in(script, tempfile::tempdir()?, "").await
    }

    /// The same in a folder, with options of the API server.
    pub async fn kubernetes_in(script: &Path, folder: TempDir, options: &str) -> anyhow::Result<Self> {
        let cluster = Self { running: Running::Kubernetes { script: script.to_owned() }, folder };
        let up = cluster.command(&["up"]).env("RONDE_APISERVER_OPTIONS", options).status().await?;
        anyhow::ensure!(up.success(), "{} up failed", script.display());
        Ok(cluster)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub async fn client(&self) -> anyhow::Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    pub async fn usage(&self) -> anyhow::Result<Usage> {
        match &self.running {
            Running::Ronde { program } => Ok(Usage::ronde(program, self.daemon().await?)),
            Running::Kubernetes { .. } => {
                let control_plane: anyhow::Result<Vec<u32>> = CONTROL_PLANE.iter().map(|name| self.pid(name)).collect();
                Usage::kubernetes(control_plane?, self.pid("node-0")?)
            }
        }
    }

    /// Returns the command that pulls an image from a registry without TLS, and unpacks it.
    pub fn pull(&self, image: &str) -> Command {
        match &self.running {
            Running::Ronde { .. } => self.command(&["--quiet", "image", "pull", image]),
            Running::Kubernetes { .. } => {
                let mut command = Command::new("ctr");
                command.arg("--address").arg(self.folder.path().join("node-0/containerd.sock"));
                command.args(["--namespace", "k8s.io", "images", "pull", "--plain-http", image]);
                command.stdout(Stdio::null());
                command
            }
        }
    }

    /// Returns the daemon that pulls images, if there is one.
    pub fn containerd(&self) -> anyhow::Result<Option<u32>> {
        let Running::Kubernetes { .. } = &self.running else { return Ok(None) };
        let config = self.folder.path().join("node-0/containerd.toml").to_string_lossy().into_owned();
        for entry in std::fs::read_dir("/proc")? {
            let path = entry?.path();
            let words = std::fs::read_to_string(path.join("cmdline")).unwrap_or_default();
            if words.starts_with("containerd\0") && words.contains(&config) {
                let pid = path.file_name().and_then(|name| name.to_str()).context("no process")?;
                return Ok(Some(pid.parse()?));
            }
        }
        anyhow::bail!("containerd is not running")
    }

    pub async fn stop(self) -> anyhow::Result<()> {
        let mut down = match &self.running {
            Running::Ronde { .. } => self.command(&["--quiet", "down", "--delete-data"]),
            Running::Kubernetes { .. } => self.command(&["down"]),
        };
        anyhow::ensure!(down.status().await?.success(), "the cluster cannot be taken down");
        Ok(())
    }

    fn command(&self, words: &[&str]) -> Command {
        let folder = self.folder.path();
        match &self.running {
            Running::Ronde { program } => {
                let mut command = Command::new(program);
                command.args(words).env("KUBECONFIG", folder.join("kubeconfig"));
                command.env("RONDE_DATA_DIR", folder.join("data"));
                command
            }
            Running::Kubernetes { script } => {
                let mut command = Command::new(script);
                command.args(words).arg(folder);
                command
            }
        }
    }

    /// Returns the process that the script started under this name.
    fn pid(&self, name: &str) -> anyhow::Result<u32> {
        let file = self.folder.path().join(format!("{name}.pid"));
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(text.trim().parse()?)
    }
}
