//! Puts our kinds into a cluster: their definitions, the two queues that are always there, and what the cluster's own
//! roles `view`, `edit` and `admin` allow to do with them.
//!
//! Idempotent: a definition is written only if it is another one than last time, by a digest that it carries, because
//! most starts find everything in place. The same on a machine and on a cluster. Where somebody else brings definitions and
//! roles, as the chart does, they are only waited for: whoever may write them may do anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

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
pub const DIGEST: &str = "ronde.dev/digest";
const MANAGER: &str = "ronde";
/// How often it is asked again for definitions that somebody else brings.
const MISSING_PACE: Duration = Duration::from_secs(2);
/// A definition is served within a second, or not at all: then those who need it say so.
const SERVED_MAX: Duration = Duration::from_secs(10);
const SERVED_PACE: Duration = Duration::from_millis(50);

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];
/// What users of jobs work with, by API group.
const CHANGED: [(&str, &[&str]); 4] = [
    ("batch.volcano.sh", &["cronjobs", "jobs"]),
    ("bus.volcano.sh", &["commands"]),
    ("flow.volcano.sh", &["jobflows", "jobtemplates"]),
    ("kai.alibabacloud.com", &["scaleins", "scaleouts", "trainingjobs", "trainingjobs/scale"]),
];
/// The same, and what tells why a job waits.
const SEEN: [(&str, &[&str]); 5] =
    [CHANGED[0], CHANGED[1], CHANGED[2], CHANGED[3], ("scheduling.volcano.sh", &["podgroups", "queues"])];

/// Who brings the definitions of our kinds, and the roles that go with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definitions {
    /// This process.
    Install,
    /// Somebody else: they are waited for.
    Check,
}

/// Makes sure that our kinds are served and that there are queues to wait in; says which kinds it waits for.
///
/// # Errors
/// If the API refuses, or cannot be reached.
pub async fn prepare(
    client: &Client,
    definitions: Definitions,
    waits_for: impl Fn(&[String]),
) -> Result<(), kube::Error> {
    match definitions {
        Definitions::Install => return ensure(client).await,
        Definitions::Check => wait_for_definitions(client, waits_for).await?,
    }
    ensure_queues(client).await
}

/// Makes sure that our kinds are served and that there are queues to wait in.
///
/// # Errors
/// If the API refuses, or cannot be reached.
pub async fn ensure(client: &Client) -> Result<(), kube::Error> {
    ensure_definitions(client).await?;
    ensure_queues(client).await?;
    ensure_roles(client).await
}

/// Returns the definitions as they are written: with the digest by which they are known as ours.
pub fn definitions() -> Vec<Value> {
    let digests: BTreeMap<&str, String> = crd::COMMITTED.iter().map(|(name, text)| (*name, digest(text))).collect();
    let mut all = crd::all();
    for definition in &mut all {
        let digest = digests.get(crd::name(definition)).cloned();
        definition["metadata"]["annotations"][DIGEST] = digest.into();
    }
    all
}

async fn ensure_queues(client: &Client) -> Result<(), kube::Error> {
    for (name, reclaimable) in [(ROOT_QUEUE, false), (DEFAULT_QUEUE, true)] {
        ensure_queue(client, name, reclaimable).await?;
    }
    Ok(())
}

/// Waits until all our kinds are served; says which are not whenever these are others than before.
async fn wait_for_definitions(client: &Client, waits_for: impl Fn(&[String])) -> Result<(), kube::Error> {
    let mut told = Vec::new();
    loop {
        let missing = missing(client).await?;
        if missing.is_empty() {
            return Ok(());
        }
        if missing != told {
            waits_for(&missing);
            told = missing;
        }
        sleep(MISSING_PACE).await;
    }
}

/// Returns what of our kinds is not served in the version that we know, subresources such as `jobs/status` included. Asks
/// for what everybody may know.
///
/// # Errors
/// If the API refuses, or cannot be reached.
pub async fn missing(client: &Client) -> Result<Vec<String>, kube::Error> {
    let mut missing = Vec::new();
    for (version, wanted) in wanted_resources() {
        let served = match client.list_api_group_resources(&version).await {
            Ok(list) => list.resources.into_iter().map(|resource| resource.name).collect(),
            Err(kube::Error::Api(status)) if status.code == 404 => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        missing.extend(wanted.difference(&served).map(|resource| format!("{resource} ({version})")));
    }
    Ok(missing)
}

/// Returns the resources of our kinds by `group/version`.
fn wanted_resources() -> BTreeMap<String, BTreeSet<String>> {
    let mut wanted = BTreeMap::<String, BTreeSet<String>>::new();
    for definition in crd::all() {
        let (spec, version) = (&definition["spec"], &definition["spec"]["versions"][0]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let plural = text(&spec["names"]["plural"]);
        let resources = wanted.entry(format!("{}/{}", text(&spec["group"]), text(&version["name"]))).or_default();
        let parts = version["subresources"].as_object().into_iter().flatten();
        resources.extend(parts.map(|(part, _)| format!("{plural}/{part}")));
        resources.insert(plural);
    }
    wanted
}

/// Makes our kinds part of the roles that every cluster has, which gather others by their labels.
async fn ensure_roles(client: &Client) -> Result<(), kube::Error> {
    let api: Api<ClusterRole> = Api::all(client.clone());
    for role in user_roles() {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&role)).await?;
    }
    Ok(())
}

/// Returns what users get by the cluster's own roles.
pub fn user_roles() -> [Value; 2] {
    [("view", &READ[..], &SEEN[..]), ("edit", &WRITE[..], &CHANGED[..])].map(|(role, verbs, kinds)| {
        let rule = |(group, resources): &(&str, &[&str])| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        let labels = json!({format!("rbac.authorization.k8s.io/aggregate-to-{role}"): "true"});
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("ronde-{role}"), "labels": labels},
            "rules": kinds.iter().map(rule).collect::<Vec<_>>(),
        })
    })
}

async fn ensure_definitions(client: &Client) -> Result<(), kube::Error> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut new = BTreeSet::new();
    for (name, text) in crd::COMMITTED {
        let digest = digest(text);
        let stored = api.get_metadata_opt(name).await?;
        let annotations = stored.and_then(|stored| stored.metadata.annotations).unwrap_or_default();
        if annotations.get(DIGEST) != Some(&digest) {
            new.insert(name);
        }
    }
    if new.is_empty() {
        return Ok(());
    }
    for definition in definitions().iter().filter(|definition| new.contains(crd::name(definition))) {
        let apply = PatchParams::apply(MANAGER).force();
        let written = api.patch(crd::name(definition), &apply, &Patch::Apply(definition)).await?;
        wait_until_served(&api, written).await?;
    }
    Ok(())
}

fn digest(text: &str) -> String {
    hash::name(&text, None)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_waited_for_with_its_parts() {
        let wanted = wanted_resources();
        let all: usize = wanted.values().map(BTreeSet::len).sum();
        assert!(all > crd::COMMITTED.len(), "{wanted:?}");
        for (version, resource) in [
            ("batch.volcano.sh/v1alpha1", "jobs"),
            ("batch.volcano.sh/v1alpha1", "jobs/status"),
            ("kai.alibabacloud.com/v1alpha1", "trainingjobs/status"),
            ("scheduling.volcano.sh/v1beta1", "podgroups"),
        ] {
            assert!(wanted[version].contains(resource), "{version}: {resource}");
        }
    }

    #[test]
    fn definitions_carry_their_digests() {
        for (definition, (name, text)) in definitions().iter().zip(crd::COMMITTED) {
            assert_eq!(definition["metadata"]["annotations"][DIGEST], digest(text), "{name}");
        }
    }
}
