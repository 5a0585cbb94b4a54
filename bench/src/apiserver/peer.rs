//! Starts and stops the two servers, and asks the machine what they take.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use kube::{
    Client, Config,
    client::ConfigExt as _,
    config::{KubeConfigOptions, Kubeconfig},
};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio_rustls::rustls::ClientConfig;

/// What it takes to speak with a server without a client.
pub struct Access {
    pub host: String,
    pub address: String,
    pub tls: Arc<ClientConfig>,
    token: String,
}

impl Access {
    /// A request for a path, as the bytes of HTTP/1.1.
    pub fn get(&self, path: &str) -> String {
        let Self { address, token, .. } = self;
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n")
    }
}

/// A running server.
pub struct Peer {
    pub ready_s: f64,
    kubeconfig: PathBuf,
    pids: Vec<u32>,
    running: Running,
    _folder: TempDir,
}

enum Running {
    Ronde(Child),
    Kubernetes { script: PathBuf, folder: PathBuf },
}

impl Peer {
    pub async fn ronde(program: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let started = Instant::now();
        let child = Command::new(program)
            .args(["up", "--nodes", "0", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path().join("data"))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let pids = child.id().into_iter().collect();
        while !is_ready(&kubeconfig).await {
            anyhow::ensure!(started.elapsed() < Duration::from_secs(30), "ronde is not ready after 30 s");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let ready_s = started.elapsed().as_secs_f64();
        Ok(Self { ready_s, kubeconfig, pids, running: Running::Ronde(child), _folder: folder })
    }

    /// Its time to ready runs from the start of etcd; certificates are made before.
    pub async fn kubernetes(script: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let dir = folder.path().join("kubernetes");
        let mut up = Command::new(script);
        up.arg("up").arg(&dir).env("RONDE_CONTROLLERS", "none").stderr(Stdio::null());
        let status = up.status().await?;
        let now = uptime_s()?;
        anyhow::ensure!(status.success(), "{} up failed", script.display());
        let pid = |name: &str| -> anyhow::Result<u32> {
            Ok(std::fs::read_to_string(dir.join(format!("{name}.pid")))?.trim().parse()?)
        };
        let pids = vec![pid("etcd")?, pid("kube-apiserver")?];
        let ready_s = now - started_s(pids[0])?;
        let running = Running::Kubernetes { script: script.to_owned(), folder: dir.clone() };
        Ok(Self { ready_s, kubeconfig: dir.join("kubeconfig"), pids, running, _folder: folder })
    }

    /// Returns a client with connections of its own.
    pub async fn client(&self) -> anyhow::Result<Client> {
        client(&self.kubeconfig).await
    }

    pub async fn access(&self) -> anyhow::Result<Access> {
        let config = config(&self.kubeconfig).await?;
        let host = config.cluster_url.host().context("no host")?.to_owned();
        let port = config.cluster_url.port_u16().context("no port")?;
        let tls = Arc::new(config.rustls_client_config()?);
        // Only what is written out again shows its secrets.
        let written = serde_json::to_value(&config.auth_info)?;
        let token = written["token"].as_str().context("no token")?.to_owned();
        Ok(Access { address: format!("{host}:{port}"), host, tls, token })
    }

    /// Returns the memory that the server holds after a few seconds of rest.
    pub async fn idle_mb(&self) -> anyhow::Result<f64> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let sizes: anyhow::Result<Vec<f64>> = self.pids.iter().map(|pid| resident_mb(*pid)).collect();
        Ok(sizes?.iter().sum())
    }

    pub async fn stop(self) -> anyhow::Result<()> {
        match self.running {
            Running::Ronde(mut child) => child.kill().await?,
            Running::Kubernetes { script, folder } => {
                Command::new(script).arg("down").arg(folder).stderr(Stdio::null()).status().await?;
            }
        }
        Ok(())
    }
}

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    Ok(Client::try_from(config(kubeconfig).await?)?)
}

async fn config(kubeconfig: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

async fn is_ready(kubeconfig: &Path) -> bool {
    let Ok(client) = client(kubeconfig).await else { return false };
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    client.request_text(request).await.is_ok()
}

fn resident_mb(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kilobytes / 1024.0)
}

fn uptime_s() -> anyhow::Result<f64> {
    Ok(std::fs::read_to_string("/proc/uptime")?.split_whitespace().next().context("no uptime")?.parse()?)
}

/// When a process started, in seconds since the machine did.
fn started_s(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(')').next().context("no name")?;
    let ticks: f64 = after_name.split_whitespace().nth(19).context("no start time")?.parse()?;
    Ok(ticks / 100.0)
}
