//! Starts and stops the instance that is measured.

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

pub struct Cluster {
    pub program: PathBuf,
    /// The daemon.
    pub pid: u32,
    folder: TempDir,
}

impl Cluster {
    pub async fn start(program: &Path) -> anyhow::Result<Self> {
        let (program, folder) = (program.canonicalize()?, tempfile::tempdir()?);
        let mut cluster = Self { program, pid: 0, folder };
        let up = cluster.ronde(&["up", "--detach", "--listen", "127.0.0.1:0"]).stderr(Stdio::inherit()).status();
        anyhow::ensure!(up.await?.success(), "ronde up failed");
        let status = cluster.ronde(&["status", "-o", "json"]).output().await?;
        let status: Value = serde_json::from_slice(&status.stdout)?;
        cluster.pid = status["pid"].as_u64().context("no process")?.try_into()?;
        Ok(cluster)
    }

    fn ronde(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("KUBECONFIG", self.folder.path().join("kubeconfig"));
        command.env("RONDE_DATA_DIR", self.folder.path().join("data"));
        command
    }

    pub async fn client(&self) -> anyhow::Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.folder.path().join("kubeconfig"))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    pub async fn stop(self) -> anyhow::Result<()> {
        let down = self.ronde(&["--quiet", "down", "--delete-data"]).status().await?;
        anyhow::ensure!(down.success(), "ronde down failed");
        Ok(())
    }
}
