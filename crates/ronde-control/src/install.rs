//! Puts our kinds into a cluster: their definitions, the two queues that are always there, and what the cluster's own
//! roles `view`, `edit` and `admin` allow to do with them.
//!
//! Idempotent: a definition is written only if it is another one than last time, by a digest that it carries, because
//! most starts find everything in place. The same on a machine and on a cluster.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::rbac::v1::ClusterRole, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use ronde_api::{
    Queue, QueueSpec, crd,
    names::{DEFAULT_QUEUE, ROOT_QUEUE},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use ronde_runtime::pods::hash;

/// On a definition: the digest of what was written.
const DIGEST: &str = "ronde.dev/digest";
const MANAGER: &str = "ronde";
/// A definition is served within a second, or not at all: then those who need it say so.
const SERVED_MAX: Duration = Duration::from_secs(10);
const SERVED_PACE: Duration = Duration::from_millis(50);

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];
/// What users of jobs work with, by API group.
const CHANGED: [(&str, &[&str]); 4] = [
    ("batch.volcano.sh", &["jobs"]),
    ("bus.volcano.sh", &["commands"]),
    ("flow.volcano.sh", &["jobflows", "jobtemplates"]),
    ("kai.alibabacloud.com", &["scaleins", "scaleouts", "trainingjobs"]),
];
/// The same, and what tells why a job waits.
const SEEN: [(&str, &[&str]); 5] =
    [CHANGED[0], CHANGED[1], CHANGED[2], CHANGED[3], ("scheduling.volcano.sh", &["podgroups", "queues"])];

/// Makes sure that our kinds are served and that there are queues to wait in.
///
/// # Errors
/// If the API refuses, or cannot be reached.
pub async fn ensure(client: &Client) -> Result<(), kube::Error> {
    ensure_definitions(client).await?;
    for (name, reclaimable) in [(ROOT_QUEUE, false), (DEFAULT_QUEUE, true)] {
        ensure_queue(client, name, reclaimable).await?;
    }
    ensure_roles(client).await
}

/// Makes our kinds part of the roles that every cluster has, which gather others by their labels.
async fn ensure_roles(client: &Client) -> Result<(), kube::Error> {
    let api: Api<ClusterRole> = Api::all(client.clone());
    for (role, verbs, kinds) in [("view", &READ[..], &SEEN[..]), ("edit", &WRITE[..], &CHANGED[..])] {
        let rule = |(group, resources): &(&str, &[&str])| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        let name = format!("ronde-{role}");
        let labels = json!({format!("rbac.authorization.k8s.io/aggregate-to-{role}"): "true"});
        let wanted = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels}, "rules": kinds.iter().map(rule).collect::<Vec<_>>(),
        });
        api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&wanted)).await?;
    }
    Ok(())
}

async fn ensure_definitions(client: &Client) -> Result<(), kube::Error> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut new = BTreeMap::new();
    for (name, text) in crd::COMMITTED {
        let digest = hash::name(&text, None);
        let stored = api.get_metadata_opt(name).await?;
        let annotations = stored.and_then(|stored| stored.metadata.annotations).unwrap_or_default();
        if annotations.get(DIGEST) != Some(&digest) {
            new.insert(name, digest);
        }
    }
    if new.is_empty() {
        return Ok(());
    }
    for mut definition in crd::all() {
        let Some(digest) = new.remove(crd::name(&definition)) else { continue };
        definition["metadata"]["annotations"][DIGEST] = Value::String(digest);
        let apply = PatchParams::apply(MANAGER).force();
        let written = api.patch(crd::name(&definition), &apply, &Patch::Apply(&definition)).await?;
        wait_until_served(&api, written).await?;
    }
    Ok(())
}

/// Waits until a server that takes its time serves a new kind.
async fn wait_until_served(api: &Api<DynamicObject>, mut definition: DynamicObject) -> Result<(), kube::Error> {
    let begun = Instant::now();
    while !is_served(&definition) && begun.elapsed() < SERVED_MAX {
        sleep(SERVED_PACE).await;
        definition = api.get(&definition.name_any()).await?;
    }
    Ok(())
}

fn is_served(definition: &DynamicObject) -> bool {
    let conditions = definition.data["status"]["conditions"].as_array().into_iter().flatten();
    let mut established = conditions.filter(|condition| condition["type"] == "Established");
    established.any(|condition| condition["status"] == "True")
}

async fn ensure_queue(client: &Client, name: &str, reclaimable: bool) -> Result<(), kube::Error> {
    let api: Api<Queue> = Api::all(client.clone());
    if api.get_metadata_opt(name).await?.is_some() {
        return Ok(());
    }
    let spec = QueueSpec { weight: 1, reclaimable: Some(reclaimable), ..QueueSpec::default() };
    let mut queue = Queue { spec, ..Queue::default() };
    queue.metadata.name = Some(name.to_owned());
    match api.create(&PostParams::default(), &queue).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(drop),
    }
}
