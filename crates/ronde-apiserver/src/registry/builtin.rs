//! The table of built-in kinds: names, scope, subresources, and the fields they can be selected by.

use super::{Resource, Shape};
use crate::{
    discovery::{ResourceInfo, SubresourceInfo},
    kinds,
};

/// One row of the table.
struct Row {
    /// `group/version`, or `v1` for the core group.
    api: &'static str,
    kind: &'static str,
    plural: &'static str,
    scope: Scope,
    /// Separated by spaces.
    short: &'static str,
    categories: &'static str,
    subresources: &'static [Sub],
    /// Fields to select by, separated by spaces.
    selectable: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Namespaced,
    Cluster,
}
use Scope::{Cluster, Namespaced};

/// The subresources there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sub {
    Status,
    Scale,
    Finalize,
    Token,
    Binding,
    Eviction,
    Log,
    Exec,
    Attach,
    PortForward,
}

const STATUS: &[Sub] = &[Sub::Status];
const SCALED: &[Sub] = &[Sub::Scale, Sub::Status];
const POD: &[Sub] = &[Sub::Attach, Sub::Binding, Sub::Eviction, Sub::Exec, Sub::Log, Sub::PortForward, Sub::Status];

const POD_FIELDS: &str = "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName \
    spec.hostNetwork status.phase status.podIP status.podIPs status.nominatedNodeName";
const EVENT_FIELDS: &str = "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid \
    involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent source type";

const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// A namespace is deleted with all that is in it; nobody deletes all of them at once.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CHANGE_VERBS: &[&str] = &["get", "patch", "update"];

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("v1", "ConfigMap", "configmaps", Namespaced, "cm", "", &[], ""),
    row("v1", "Endpoints", "endpoints", Namespaced, "ep", "", &[], ""),
    row("v1", "Event", "events", Namespaced, "ev", "", &[], EVENT_FIELDS),
    row("v1", "Namespace", "namespaces", Cluster, "ns", "", &[Sub::Finalize, Sub::Status], "status.phase"),
    row("v1", "Node", "nodes", Cluster, "no", "", STATUS, "spec.unschedulable"),
    row("v1", "PersistentVolumeClaim", "persistentvolumeclaims", Namespaced, "pvc", "", STATUS, ""),
    row("v1", "PersistentVolume", "persistentvolumes", Cluster, "pv", "", STATUS, ""),
    row("v1", "Pod", "pods", Namespaced, "po", "all", POD, POD_FIELDS),
    row("v1", "ResourceQuota", "resourcequotas", Namespaced, "quota", "", STATUS, ""),
    row("v1", "Secret", "secrets", Namespaced, "", "", &[], "type"),
    row("v1", "ServiceAccount", "serviceaccounts", Namespaced, "sa", "", &[Sub::Token], ""),
    row("v1", "Service", "services", Namespaced, "svc", "all", STATUS, "spec.clusterIP spec.type"),
    row("apps/v1", "ControllerRevision", "controllerrevisions", Namespaced, "", "", &[], ""),
    row("apps/v1", "Deployment", "deployments", Namespaced, "deploy", "all", SCALED, ""),
    row("apps/v1", "ReplicaSet", "replicasets", Namespaced, "rs", "all", SCALED, ""),
    row("apps/v1", "StatefulSet", "statefulsets", Namespaced, "sts", "all", SCALED, ""),
    row("batch/v1", "Job", "jobs", Namespaced, "", "all", STATUS, "status.successful"),
    row("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", Namespaced, "pdb", "", STATUS, ""),
    row("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", Cluster, "pc", "", &[], ""),
    row("coordination.k8s.io/v1", "Lease", "leases", Namespaced, "", "", &[], ""),
    row("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", Namespaced, "", "", &[], ""),
    row("events.k8s.io/v1", "Event", "events", Namespaced, "ev", "", &[], ""),
    row("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", Namespaced, "netpol", "", &[], ""),
    row("networking.k8s.io/v1", "Ingress", "ingresses", Namespaced, "ing", "", STATUS, ""),
    row("networking.k8s.io/v1", "IngressClass", "ingressclasses", Cluster, "", "", &[], ""),
    row("rbac.authorization.k8s.io/v1", "Role", "roles", Namespaced, "", "", &[], ""),
    row("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", Namespaced, "", "", &[], ""),
    row("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", Cluster, "", "", &[], ""),
    row("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", Cluster, "", "", &[], ""),
    row("storage.k8s.io/v1", "StorageClass", "storageclasses", Cluster, "sc", "", &[], ""),
    row("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", Cluster, "crd crds",
        "api-extensions", STATUS, ""),
];

#[expect(clippy::too_many_arguments, reason = "a table row, read by its columns")]
const fn row(
    api: &'static str,
    kind: &'static str,
    plural: &'static str,
    scope: Scope,
    short: &'static str,
    categories: &'static str,
    subresources: &'static [Sub],
    selectable: &'static str,
) -> Row {
    Row { api, kind, plural, scope, short, categories, subresources, selectable }
}

/// Returns all built-in resources.
pub fn resources() -> Vec<Resource> {
    TABLE.iter().map(resource).collect()
}

fn resource(row: &Row) -> Resource {
    let (group, version) = row.api.split_once('/').unwrap_or(("", row.api));
    let rules = kinds::rules(group, row.kind).expect("every row has rules (tested)");
    let shape = if group == "events.k8s.io" { Shape::Event(rules) } else { Shape::Builtin(rules) };
    let info = ResourceInfo {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: row.kind.to_owned(),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        short_names: words(row.short),
        categories: words(row.categories),
        namespaced: row.scope == Namespaced,
        verbs: if row.kind == "Namespace" { NAMESPACE_VERBS } else { ALL_VERBS }.to_vec(),
        subresources: row.subresources.iter().map(|sub| sub.info(group, version, row.kind)).collect(),
    };
    Resource::new(info, shape, words(row.selectable))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Sub {
    fn info(self, group: &str, version: &str, kind: &str) -> SubresourceInfo {
        let own = (group, version, kind);
        let (name, (group, version, kind), verbs): (_, _, &[&'static str]) = match self {
            Self::Status => ("status", own, CHANGE_VERBS),
            Self::Finalize => ("finalize", own, &["update"]),
            Self::Scale => ("scale", ("autoscaling", "v1", "Scale"), CHANGE_VERBS),
            Self::Token => ("token", ("authentication.k8s.io", "v1", "TokenRequest"), &["create"]),
            Self::Binding => ("binding", ("", "v1", "Binding"), &["create"]),
            Self::Eviction => ("eviction", ("policy", "v1", "Eviction"), &["create"]),
            Self::Log => ("log", own, &["get"]),
            Self::Exec => ("exec", ("", "v1", "PodExecOptions"), &["create", "get"]),
            Self::Attach => ("attach", ("", "v1", "PodAttachOptions"), &["create", "get"]),
            Self::PortForward => ("portforward", ("", "v1", "PodPortForwardOptions"), &["create", "get"]),
        };
        SubresourceInfo {
            name: name.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            verbs: verbs.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_resource_has_rules_and_a_schema() {
        for resource in resources() {
            assert_eq!(resource.schema().kind, crate::schema::Type::Object, "{}", resource.info.kind);
        }
    }
}
