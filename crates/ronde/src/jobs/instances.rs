//! The pods of a job as arena's tables show them.
//!
//! Their status is the one that the API itself writes for people, in the table of `kubectl get pods`: both engines
//! know best what `Init:0/1` or `OOMKilled` is on them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::{
    any::AnyJob,
    trouble::{self, Warnings},
};
use crate::{
    client::{self, ClientError, encode},
    get::AS_TABLE,
    objects,
    table::Span,
};

const GPU: &str = "nvidia.com/gpu";

/// A pod of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub name: String,
    pub uid: String,
    pub status: String,
    pub created: Option<Timestamp>,
    pub is_chief: bool,
    pub gpus: i64,
    /// Empty while it waits for one.
    pub node: String,
    pub ip: String,
    pub node_ip: String,
    /// Whether it has neither succeeded nor failed.
    pub is_live: bool,
    /// What keeps it from running, or has ended it.
    pub trouble: Option<String>,
}

/// Returns the pods of a job, the chief first.
pub async fn fetch(client: &Client, job: &AnyJob, warnings: &Warnings) -> Result<Vec<Instance>, ClientError> {
    let selector = encode(&job.selector());
    let path = objects::path::<Pod>(Some(job.namespace()), None);
    let path = format!("{path}?labelSelector={selector}&includeObject=Object");
    let table = client::send(client, client::get(&path, AS_TABLE), Vec::new()).await?.json()?;
    of_table(job, &table, warnings)
}

fn of_table(job: &AnyJob, table: &Value, warnings: &Warnings) -> Result<Vec<Instance>, ClientError> {
    let columns = table["columnDefinitions"].as_array().map_or(&[][..], Vec::as_slice);
    let status = columns.iter().position(|column| column["name"] == "Status");
    let mut pods = Vec::new();
    for row in table["rows"].as_array().into_iter().flatten() {
        let pod = serde_json::from_value::<Pod>(row["object"].clone());
        let pod = pod.map_err(|source| ClientError::NotJson { source })?;
        if job.owns(&pod) {
            let status = status.and_then(|status| row["cells"][status].as_str());
            let trouble = trouble::of_pod(&pod, warnings);
            let instance = Instance { trouble, ..instance(job, &pod, status.unwrap_or("Unknown")) };
            pods.push((job.place(&pod), instance));
        }
    }
    pods.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(pods.into_iter().map(|(_, instance)| instance).collect())
}

fn instance(job: &AnyJob, pod: &Pod, status: &str) -> Instance {
    let live = pod.status.clone().unwrap_or_default();
    Instance {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        status: status.to_owned(),
        created: pod.creation_timestamp().map(|time| time.0),
        is_chief: job.is_chief(&pod.name_any()),
        gpus: gpus(pod),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        ip: live.pod_ip.unwrap_or_default(),
        node_ip: live.host_ip.unwrap_or_default(),
        is_live: !matches!(live.phase.as_deref(), Some("Succeeded" | "Failed")),
        trouble: None,
    }
}

/// Returns the GPUs that the containers of a pod ask for.
pub fn gpus(pod: &Pod) -> i64 {
    gpus_of(pod.spec.as_ref())
}

/// Returns the GPUs that the containers of such a pod ask for.
pub fn gpus_of(spec: Option<&PodSpec>) -> i64 {
    let containers = spec.into_iter().flat_map(|spec| &spec.containers);
    let amounts = containers.filter_map(|container| container.resources.as_ref()?.limits.as_ref()?.get(GPU));
    amounts.filter_map(|amount| amount.0.parse::<i64>().ok()).sum()
}

impl Instance {
    pub fn node_or_none(&self) -> &str {
        if self.node.is_empty() { "N/A" } else { &self.node }
    }

    pub fn age(&self, now: Timestamp) -> Span {
        Span::between(self.created, now)
    }

    /// The GPUs that are taken on a node.
    pub fn allocated(&self) -> i64 {
        if self.is_live && !self.node.is_empty() { self.gpus } else { 0 }
    }

    /// As in arena's JSON.
    pub fn to_json(&self, now: Timestamp) -> Value {
        json!({
            "ip": self.ip,
            "status": self.status,
            "name": self.name,
            "age": self.age(now).seconds(),
            "node": self.node_or_none(),
            "nodeIP": self.node_ip,
            "chief": self.is_chief,
            "requestGPUs": self.gpus,
            "gpuMetrics": {},
            "creationTimestamp": self.created.map_or(0, Timestamp::as_second),
        })
    }
}
