//! The control plane that the script has started: a client of our own beside the operators, and how its processes are
//! started again.

use std::{future::Future, net::SocketAddr, path::PathBuf, time::Duration};

use fs_err as fs;
use kube::{
    Api, Client, Config, Resource,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::process::Command;

use crate::now;

pub const NAMESPACE: &str = "soak";
/// The longest that the API may be away: it starts within seconds, on a busy machine within many.
const OUTAGE_MAX: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone)]
pub struct Cluster {
    folder: PathBuf,
    pub client: Client,
}

/// A kind of objects that have a namespace.
pub trait Kind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug
{
}
impl<K> Kind for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug
{
}

impl Cluster {
    pub async fn in_folder(folder: PathBuf) -> Self {
        let kubeconfig = Kubeconfig::read_from(folder.join("kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Self { folder, client: Client::try_from(config).unwrap() }
    }

    /// Returns where the API server listens.
    pub fn server(&self) -> SocketAddr {
        let text = self.kubeconfig();
        let url = text.lines().find_map(|line| line.trim().strip_prefix("server: https://")).unwrap();
        url.parse().unwrap()
    }

    /// Returns the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> String {
        fs::read_to_string(self.folder.join("kubeconfig")).unwrap()
    }

    pub fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Ends a process of the control plane by a signal, and starts it again.
    pub async fn restart(&self, name: &str, signal: &str) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../e2e/kubernetes.sh");
        let output = Command::new(script).arg("restart").arg(&self.folder).args([name, signal]).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn api<K: Kind>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub async fn list<K: Kind>(&self) -> Vec<K> {
        self.patiently(|| async { self.api::<K>().list(&ListParams::default()).await }).await.unwrap().items
    }

    /// Makes an object, unless an earlier attempt did, whose answer was lost.
    pub async fn create<K: Kind>(&self, value: Value) {
        let object: K = serde_json::from_value(value).unwrap();
        let made = self.patiently(|| async { self.api().create(&PostParams::default(), &object).await }).await;
        accept(made, 409);
    }

    /// Deletes an object, unless somebody else was first.
    pub async fn delete<K: Kind>(&self, name: &str, grace: Option<u32>) {
        let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::background() };
        let deleted = self.patiently(|| async { self.api::<K>().delete(name, &params).await }).await;
        accept(deleted, 404);
    }

    /// Repeats a request while there is no answer: the API server may be away.
    async fn patiently<T, F: Future<Output = kube::Result<T>>>(&self, request: impl Fn() -> F) -> kube::Result<T> {
        let begun = now();
        loop {
            match request().await {
                Err(error) if is_outage(&error) && begun.elapsed() < OUTAGE_MAX => tokio::time::sleep(PAUSE).await,
                other => return other,
            }
        }
    }
}

/// Whether the server could not answer, rather than did not want to. A server that starts refuses what it does not know yet.
fn is_outage(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || matches!(status.code, 401 | 403 | 429),
        _ => true,
    }
}

fn accept<T>(result: kube::Result<T>, code: u16) {
    match result {
        Err(kube::Error::Api(status)) if status.code == code => {}
        other => drop(other.unwrap()),
    }
}
