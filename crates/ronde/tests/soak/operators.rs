//! Two operators, each with a way of its own to the API server. One that has ended is started again, as a kubelet does.

use std::{path::PathBuf, process::Stdio, time::Duration};

use fs_err as fs;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::{cluster::Cluster, network::Way};

const COUNT: usize = 2;
/// Longer than an operator takes to give its lease back.
const STOP_MAX: Duration = Duration::from_secs(30);

pub struct Operators {
    all: Vec<Operator>,
    cluster: Cluster,
}

pub struct Operator {
    pub name: String,
    pub way: Way,
    kubeconfig: PathBuf,
    log: PathBuf,
    process: Child,
}

impl Operators {
    pub async fn start(cluster: &Cluster) -> Self {
        let mut all = Vec::new();
        for number in 0..COUNT {
            let name = format!("operator-{number}");
            let way = Way::to(cluster.server()).await;
            let text = cluster.kubeconfig().replace(&cluster.server().to_string(), &format!("127.0.0.1:{}", way.port));
            let (kubeconfig, log) = (cluster.folder().join(&name), cluster.folder().join(format!("{name}.log")));
            fs::write(&kubeconfig, text).unwrap();
            let process = run(&kubeconfig, &log);
            all.push(Operator { name, way, kubeconfig, log, process });
        }
        Self { all, cluster: cluster.clone() }
    }

    pub fn all(&self) -> &[Operator] {
        &self.all
    }

    /// Returns the one that has the lease, if it can be told.
    pub async fn leader(&self) -> Option<&Operator> {
        let leases: Api<Lease> = Api::namespaced(self.cluster.client.clone(), "kube-system");
        let holder = leases.get("ronde-operator").await.ok()?.spec?.holder_identity?;
        self.all.iter().find(|operator| operator.process.id().is_some_and(|pid| holder.contains(&format!("_{pid}_"))))
    }

    /// Starts those again that have ended, and tells how they did.
    pub fn revive(&mut self) -> Vec<String> {
        let mut news = Vec::new();
        for operator in &mut self.all {
            if let Some(status) = operator.process.try_wait().unwrap() {
                news.push(format!("{} has ended: {status}; {}", operator.name, last_line(&operator.log)));
                operator.process = run(&operator.kubeconfig, &operator.log);
            }
        }
        news
    }

    /// Ends them as a user would.
    pub async fn stop(mut self) {
        for operator in &mut self.all {
            operator.signal(Signal::TERM);
            tokio::time::timeout(STOP_MAX, operator.process.wait()).await.expect("it ends when asked to").unwrap();
        }
    }
}

impl Operator {
    /// Sends a signal, unless it has ended by itself.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.process.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = kill_process(pid, signal);
        }
    }
}

fn run(kubeconfig: &PathBuf, log: &PathBuf) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    let (file, _) = log.into_parts();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ronde"));
    command.arg("operator").arg("--kubeconfig").arg(kubeconfig).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().unwrap()
}

fn last_line(log: &PathBuf) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
}
