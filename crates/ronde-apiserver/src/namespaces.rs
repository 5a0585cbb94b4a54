//! Namespaces: the ones that are always there, and the loop that empties those that are being deleted.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    api::Api,
    error::{ApiError, Subject},
    rbac,
    store::{Key, Object, Range},
    verbs::{
        Call,
        body::Body,
        delete::{DeleteOptions, Propagation},
        meta,
        update::Next,
    },
};

/// The namespaces of every cluster.
pub const PRESENT: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Those that cannot be deleted.
pub const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];
const FINALIZER: &str = "kubernetes";
/// While something is being emptied, changes are looked at in bundles.
const PACE: Duration = Duration::from_millis(20);

/// # Errors
/// If nothing can be created in the namespace: it does not exist, or is being deleted.
pub fn check_open(api: &Api, namespace: &str, subject: Subject<'_>) -> Result<(), ApiError> {
    let missing = Subject { group: "", what: "namespaces", name: namespace };
    let stored = api.store().get(&Key::new(&"namespaces".into(), "", namespace));
    let stored = stored.ok_or_else(|| ApiError::not_found(missing))?;
    if !stored.is_deleting() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut error = ApiError::forbidden(subject, why);
    if let Some(details) = &mut error.details {
        details["causes"] = json!([{
            "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
    }
    Err(error)
}

/// Priority classes of every cluster: (name, value, what for).
const CLASSES: [(&str, i64, &str); 2] = [
    ("system-cluster-critical", 2_000_000_000, "For pods that the cluster needs, on whatever node."),
    ("system-node-critical", 2_000_001_000, "For pods that their node needs."),
];

/// Makes sure that the namespaces, priority classes, roles and bindings of every cluster exist.
///
/// # Errors
/// If the store refuses.
pub async fn ensure_present(api: &Api) -> Result<(), ApiError> {
    for name in PRESENT {
        ensure(api, "", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await?;
    }
    for (name, value, description) in CLASSES {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            "description": description,
        });
        ensure(api, "", class).await?;
    }
    // Together: they share a write to the disk.
    let rights = rbac::bootstrap::objects().into_iter().map(|object| ensure(api, "", object));
    futures::future::try_join_all(rights).await.map(drop)
}

/// Empties and removes namespaces that are being deleted, until the server stops.
pub async fn run(api: Api) {
    let mut changed = api.store().any_change();
    loop {
        changed.mark_unchanged();
        let (leaving, open) = all(&api);
        for namespace in &open {
            if let Err(error) = furnish(&api, namespace).await {
                tracing::warn!(namespace, %error, "cannot set up a namespace, retrying");
            }
        }
        for namespace in &leaving {
            if let Err(error) = empty(&api, namespace).await {
                tracing::warn!(namespace, %error, "cannot empty a namespace, retrying");
            }
        }
        let busy = !leaving.is_empty();
        tokio::select! {
            () = api.stopping().cancelled() => return,
            change = changed.changed() => if change.is_err() { return },
        }
        if busy {
            tokio::time::sleep(PACE).await;
        }
    }
}

/// The names of the namespaces that are being deleted, and of the others.
fn all(api: &Api) -> (Vec<String>, Vec<String>) {
    let page = api.store().list("namespaces", &Range::default());
    let objects = page.map(|page| page.objects).unwrap_or_default();
    let (leaving, open): (Vec<_>, Vec<_>) = objects.iter().partition(|object| object.is_deleting());
    let names = |objects: Vec<&Arc<Object>>| objects.iter().map(|object| object.place.name.to_string()).collect();
    (names(leaving), names(open))
}

/// Makes sure that a namespace has what pods in it expect: an account, and the certificate of this server.
async fn furnish(api: &Api, namespace: &str) -> Result<(), ApiError> {
    let has = |collection: &str, name: &str| api.store().get(&Key::new(&collection.into(), namespace, name)).is_some();
    // This is asked after every write, so the usual answer has to be cheap.
    if has("serviceaccounts", "default") && (api.ca_pem().is_none() || has("configmaps", "kube-root-ca.crt")) {
        return Ok(());
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    ensure(api, namespace, account).await?;
    let Some(certificate) = api.ca_pem() else { return Ok(()) };
    let about = "The authority that signs the certificate of this API server.";
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kube-root-ca.crt", "annotations": {"kubernetes.io/description": about}},
        "data": {"ca.crt": certificate},
    });
    ensure(api, namespace, map).await
}

async fn ensure(api: &Api, namespace: &str, value: Value) -> Result<(), ApiError> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let mut call = Call::internal(api, text("apiVersion"), text("kind"), (namespace, meta::text(&value, "name")), "")?;
    if call.find().is_ok() {
        return Ok(());
    }
    match call.create(Body { value, problems: Vec::new() }).await {
        Err(error) if matches!(error.reason, "AlreadyExists" | "NotFound" | "Forbidden") => Ok(()),
        other => other.map(drop),
    }
}

/// Deletes what is in a namespace; when nothing is left, lets the namespace go.
async fn empty(api: &Api, namespace: &str) -> Result<(), ApiError> {
    let remaining = delete_contents(api, namespace).await?;
    if remaining.is_empty() {
        let mut call = Call::internal(api, "v1", "Namespace", ("", namespace), "finalize")?;
        call.options.field_manager = "ronde-namespaces".into();
        return match call.change(without_finalizer).await {
            Err(error) if error.reason == "NotFound" => Ok(()),
            other => other.map(drop),
        };
    }
    report(api, namespace, &remaining).await
}

/// Starts the deletion of everything in a namespace; returns what is still there, by resource.
async fn delete_contents(api: &Api, namespace: &str) -> Result<BTreeMap<String, Left>, ApiError> {
    let registry = api.registry();
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let mut remaining = BTreeMap::new();
    for resource in registry.stored().filter(|resource| resource.info.namespaced) {
        let range = Range { namespace: Some(namespace.into()), ..Range::default() };
        let page =
            api.store().list(&resource.collection, &range).map_err(|_| ApiError::internal("no newest revision"))?;
        for object in page.objects {
            let mut call = Call::on(api, resource.clone(), (namespace, &object.place.name), "");
            if !object.is_deleting() {
                match call.delete(&options).await {
                    Err(error) if error.reason == "NotFound" => {}
                    other => drop(other?),
                }
            }
            if let Ok(still) = call.find() {
                let info = &resource.info;
                let left: &mut Left = remaining.entry(format!("{}.{}", info.plural, info.group)).or_default();
                left.add(&still.value());
            }
        }
    }
    Ok(remaining)
}

/// What holds a namespace back.
#[derive(Default)]
struct Left {
    count: usize,
    finalizers: BTreeMap<String, usize>,
}

impl Left {
    fn add(&mut self, object: &Value) {
        self.count += 1;
        for finalizer in meta::finalizers(object) {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
}

/// Says in the namespace's status what it waits for.
async fn report(api: &Api, namespace: &str, remaining: &BTreeMap<String, Left>) -> Result<(), ApiError> {
    let now = api.clock_and_ids().now_text();
    let conditions = conditions(remaining);
    let call = Call::internal(api, "v1", "Namespace", ("", namespace), "status")?;
    let write = |old: &Value| {
        let mut value = old.clone();
        for condition in &conditions {
            set_condition(&mut value, condition.clone(), &now);
        }
        Ok(Next::of_loop(value))
    };
    match call.change(write).await {
        Err(error) if error.reason == "NotFound" => Ok(()),
        other => other.map(drop),
    }
}

/// The conditions that clients know from the real namespace controller.
fn conditions(remaining: &BTreeMap<String, Left>) -> Vec<Value> {
    let contents: Vec<String> =
        remaining.iter().map(|(resource, left)| format!("{resource} has {} resource instances", left.count)).collect();
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for (finalizer, count) in remaining.values().flat_map(|left| &left.finalizers) {
        *finalizers.entry(finalizer).or_default() += count;
    }
    let held: Vec<String> =
        finalizers.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")).collect();
    let content = format!("Some resources are remaining: {}", contents.join(", "));
    let holding = format!("Some content in the namespace has finalizers remaining: {}", held.join(", "));
    let discovered = "All resources successfully discovered";
    let parsed = "All legacy kube types successfully parsed";
    let deleted = "All content successfully deleted, may be waiting on finalization";
    let mut conditions = vec![
        condition("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", discovered),
        condition("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions", parsed),
        condition("NamespaceDeletionContentFailure", "False", "ContentDeleted", deleted),
        condition("NamespaceContentRemaining", "True", "SomeResourcesRemain", &content),
    ];
    if !held.is_empty() {
        conditions.push(condition("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", &holding));
    }
    conditions
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

/// Puts a condition into a status; its time changes only with its content.
fn set_condition(object: &mut Value, mut condition: Value, now: &str) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(list) = object["status"]["conditions"].as_array_mut() else { return };
    let same = list.iter_mut().find(|old| old["type"] == condition["type"]);
    condition["lastTransitionTime"] = now.into();
    match same {
        Some(old) if old["message"] == condition["message"] && old["status"] == condition["status"] => {}
        Some(old) => *old = condition,
        None => list.push(condition),
    }
}

fn without_finalizer(old: &Value) -> Result<Next, ApiError> {
    let mut value = old.clone();
    let finalizers = old["spec"]["finalizers"].as_array().into_iter().flatten();
    let kept: Vec<&Value> = finalizers.filter(|finalizer| *finalizer != FINALIZER).collect();
    value["spec"] = if kept.is_empty() { json!({}) } else { json!({"finalizers": kept}) };
    Ok(Next::of_loop(value))
}
