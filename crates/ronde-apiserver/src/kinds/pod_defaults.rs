//! The defaults of pod specs, in pods and in the templates of workloads, and those that only pods get.
//!
//! Objects come in the form of their schema: what is always there is there, and zeros that mean nothing are not.

use serde_json::{Map, Value, json};

use super::{
    pod_resources::{default_pod_requests, default_requests},
    read::{default, default_optional, object, objects_mut, text},
    resources::round_up,
};

type Object = Map<String, Value>;

/// Sets the defaults of a pod spec anywhere.
pub fn pod_spec(spec: &mut Object) {
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default_optional(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "schedulerName", "default-scheduler");
    default_optional(spec, "securityContext", json!({}));
    mirror_service_account(spec);
    objects_mut(spec, "volumes").for_each(volume);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        objects_mut(spec, list).for_each(container);
    }
    spec.get_mut("overhead").map(round_up);
    spec.get_mut("resources").map(round_up_requirements);
}

/// Sets the defaults that a pod has beyond those of its spec.
pub fn pod(spec: &mut Object) {
    for list in ["initContainers", "containers"] {
        objects_mut(spec, list).for_each(|container| {
            container.get_mut("resources").and_then(Value::as_object_mut).map(default_requests);
        });
    }
    default_pod_requests(spec);
    default_optional(spec, "enableServiceLinks", true);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
        for list in ["initContainers", "containers"] {
            objects_mut(spec, list).for_each(default_host_ports);
        }
    }
}

/// Sets the spec of a claim (also of a claim template) as if it had been written in full.
pub fn claim_spec(spec: &mut Object) {
    default_optional(spec, "volumeMode", "Filesystem");
    spec.get_mut("resources").map(round_up_requirements);
}

/// The old name of the field still shows the same account.
fn mirror_service_account(spec: &mut Object) {
    let name = spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")).cloned();
    if let Some(name) = name {
        spec.insert("serviceAccountName".to_owned(), name.clone());
        spec.insert("serviceAccount".to_owned(), name);
    }
}

fn container(container: &mut Object) {
    let policy = pull_policy(container.get("image").map(text).unwrap_or_default());
    default(container, "imagePullPolicy", policy);
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    objects_mut(container, "ports").for_each(|port| default(port, "protocol", "TCP"));
    objects_mut(container, "env").for_each(|env| {
        env.get_mut("valueFrom").map(field_ref);
    });
    container.get_mut("resources").map(round_up_requirements);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        container.get_mut(name).and_then(Value::as_object_mut).map(probe);
    }
    if let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) {
        for name in ["postStart", "preStop"] {
            lifecycle.get_mut(name).and_then(Value::as_object_mut).map(http_get);
        }
    }
}

/// Returns the policy for an image without one: the tag `latest`, also if only implied, is always pulled.
pub fn pull_policy(image: &str) -> &'static str {
    if image_tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// Returns the tag of an image, `latest` when there is neither tag nor digest, none when it is no image name.
fn image_tag(image: &str) -> Option<&str> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag);
    let repository = tag.map_or(name, |tag| &name[..name.len() - tag.len() - 1]);
    let is_host = |part: &str| part.contains(['.', ':']) || part == "localhost" || part.to_lowercase() != part;
    let path = match repository.split_once('/') {
        Some((host, path)) if is_host(host) => path,
        _ => repository,
    };
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_edge) && part.ends_with(is_edge) && part.chars().all(|c| is_edge(c) || "._-".contains(c))
    };
    let is_name = path.split('/').all(is_part);
    let is_tag = |tag: &str| !tag.is_empty() && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    match tag {
        _ if !is_name => None,
        None => digest.is_none().then_some("latest"),
        Some(tag) => is_tag(tag).then_some(tag),
    }
}

fn probe(probe: &mut Object) {
    for (field, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        default(probe, field, value);
    }
    http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        default_optional(grpc, "service", "");
    }
}

fn http_get(handler: &mut Object) {
    if let Some(http) = handler.get_mut("httpGet").and_then(Value::as_object_mut) {
        default(http, "path", "/");
        default(http, "scheme", "HTTP");
    }
}

/// Sets the version in the `fieldRef` of an environment variable or a file of the downward API.
fn field_ref(source: &mut Value) {
    if let Some(field_ref) = source.get_mut("fieldRef").and_then(Value::as_object_mut) {
        default(field_ref, "apiVersion", "v1");
    }
}

fn default_host_ports(container: &mut Object) {
    objects_mut(container, "ports").for_each(|port| {
        let number = port.get("containerPort").cloned().unwrap_or_default();
        default(port, "hostPort", number);
    });
}

fn round_up_requirements(requirements: &mut Value) {
    for list in ["limits", "requests"] {
        requirements.get_mut(list).map(round_up);
    }
}

fn volume(volume: &mut Object) {
    let has_source = volume.iter().any(|(key, value)| key != "name" && !value.is_null());
    if !has_source {
        volume.insert("emptyDir".to_owned(), json!({}));
        return;
    }
    for (source, value) in volume.iter_mut() {
        let Some(value) = value.as_object_mut() else { continue };
        match source.as_str() {
            "secret" | "configMap" => default_optional(value, "defaultMode", 0o644),
            "downwardAPI" => downward_volume(value),
            "projected" => projected(value),
            "hostPath" => default_optional(value, "type", ""),
            "ephemeral" => ephemeral(value),
            _ => network_volume(source, value),
        }
    }
}

fn downward_volume(source: &mut Object) {
    default_optional(source, "defaultMode", 0o644);
    downward_items(source);
}

fn downward_items(source: &mut Object) {
    super::read::items_mut(source, "items").iter_mut().for_each(field_ref);
}

fn projected(source: &mut Object) {
    default_optional(source, "defaultMode", 0o644);
    objects_mut(source, "sources").for_each(|part| {
        if let Some(downward) = part.get_mut("downwardAPI").and_then(Value::as_object_mut) {
            downward_items(downward);
        }
        if let Some(token) = part.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
            default_optional(token, "expirationSeconds", 3600);
        }
    });
}

fn ephemeral(source: &mut Object) {
    if let Some(template) = source.get_mut("volumeClaimTemplate").and_then(Value::as_object_mut) {
        object(template, "spec").map(claim_spec);
    }
}

/// Sets the defaults of sources that volumes and persistent volumes share.
pub fn network_volume(source: &str, value: &mut Object) {
    match source {
        "iscsi" => default(value, "iscsiInterface", "default"),
        "rbd" => {
            default(value, "pool", "rbd");
            default(value, "user", "admin");
            default(value, "keyring", "/etc/ceph/keyring");
        }
        "azureDisk" => {
            default_optional(value, "cachingMode", "ReadWrite");
            default_optional(value, "kind", "Shared");
            default_optional(value, "fsType", "ext4");
            default_optional(value, "readOnly", false);
        }
        "scaleIO" => {
            default(value, "storageMode", "ThinProvisioned");
            default(value, "fsType", "xfs");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::pull_policy;

    #[test]
    fn images_without_a_tag_or_with_latest_are_always_pulled() {
        let rows = [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("busybox:1.36", "IfNotPresent"),
            ("localhost:5000/a/b", "Always"),
            ("localhost:5000/a/b:v1", "IfNotPresent"),
            ("a@sha256:0123", "IfNotPresent"),
            ("a:latest@sha256:0123", "Always"),
            ("", "IfNotPresent"),
            ("Bad", "IfNotPresent"),
            ("Host/good", "Always"),
            ("a b", "IfNotPresent"),
            ("-a", "IfNotPresent"),
        ];
        for (image, expected) in rows {
            assert_eq!(pull_policy(image), expected, "{image}");
        }
    }
}
