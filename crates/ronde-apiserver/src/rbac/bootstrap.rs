//! The roles and bindings that every cluster has, made at the start if they are not there. Pure.
//!
//! Those of Kubernetes, but for the components that a machine does not have. `admin`, `edit` and `view` are aggregated:
//! whoever brings kinds along adds roles for them with the labels of [`AGGREGATE`].

use serde_json::{Value, json};

use super::GROUP;

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
/// With `-admin`, `-edit` or `-view` behind it: the label of roles that are part of that role.
pub const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to";

/// What pods and those who run them are made of; secrets, accounts and terminals lead further than they look.
const CORE_WRITE: &[&str] = &[
    "configmaps",
    "events",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "services",
];
const CORE_READ: &[&str] = &[
    "bindings",
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "namespaces",
    "namespaces/status",
    "persistentvolumeclaims",
    "persistentvolumeclaims/status",
    "pods",
    "pods/log",
    "pods/status",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "replicationcontrollers/status",
    "resourcequotas",
    "resourcequotas/status",
    "serviceaccounts",
    "services",
    "services/status",
];
const APPS_WRITE: &[&str] = &[
    "daemonsets",
    "deployments",
    "deployments/rollback",
    "deployments/scale",
    "replicasets",
    "replicasets/scale",
    "statefulsets",
    "statefulsets/scale",
];
const APPS_READ: &[&str] = &[
    "controllerrevisions",
    "daemonsets",
    "daemonsets/status",
    "deployments",
    "deployments/scale",
    "deployments/status",
    "replicasets",
    "replicasets/scale",
    "replicasets/status",
    "statefulsets",
    "statefulsets/scale",
    "statefulsets/status",
];
const BATCH_READ: &[&str] = &["cronjobs", "cronjobs/status", "jobs", "jobs/status"];
const POLICY_READ: &[&str] = &["poddisruptionbudgets", "poddisruptionbudgets/status"];
const NETWORK: &[&str] = &["ingresses", "networkpolicies"];
const NETWORK_READ: &[&str] = &["ingresses", "ingresses/status", "networkpolicies"];

/// Returns the objects, roles first.
pub fn objects() -> Vec<Value> {
    let mut objects = cluster_roles();
    objects.extend([
        binding("cluster-admin", &["system:masters"]),
        binding("system:basic-user", &["system:authenticated"]),
        binding("system:discovery", &["system:authenticated"]),
        binding("system:monitoring", &["system:monitoring"]),
        binding("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
        binding("system:service-account-issuer-discovery", &["system:serviceaccounts"]),
    ]);
    objects
}

fn cluster_roles() -> Vec<Value> {
    let health = ["/healthz", "/livez", "/readyz"];
    let discovery = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"];
    let issuer = [
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/",
        "/openid/v1/jwks",
        "/openid/v1/jwks/",
    ];
    let monitoring =
        ["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*"];
    vec![
        role("cluster-admin", &json!([rule("*", &["*"], &["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}])),
        role("system:discovery", &json!([paths(&[&health[..], &discovery[..]].concat())])),
        role("system:public-info-viewer", &json!([paths(&[&health[..], &["/version", "/version/"]].concat())])),
        role("system:monitoring", &json!([paths(&monitoring)])),
        role("system:service-account-issuer-discovery", &json!([paths(&issuer)])),
        role("system:basic-user", &basic_user()),
        role("system:auth-delegator", &auth_delegator()),
        aggregated("admin", None),
        aggregated("edit", Some("admin")),
        aggregated("view", Some("edit")),
        part("system:aggregate-to-admin", "admin", &admin()),
        part("system:aggregate-to-edit", "edit", &edit()),
        part("system:aggregate-to-view", "view", &view()),
    ]
}

fn basic_user() -> Value {
    json!([
        rule("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"], &["create"]),
        rule("authentication.k8s.io", &["selfsubjectreviews"], &["create"]),
    ])
}

fn auth_delegator() -> Value {
    json!([
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    ])
}

/// Rights to give rights away, beyond those of `edit`.
fn admin() -> Value {
    json!([
        rule("authorization.k8s.io", &["localsubjectaccessreviews"], &["create"]),
        rule(GROUP, &["rolebindings", "roles"], &[READ, WRITE].concat()),
    ])
}

fn edit() -> Value {
    json!([
        rule("", &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"], READ),
        rule("", &["serviceaccounts"], &["impersonate"]),
        rule("", &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"], WRITE),
        rule("", &["pods/eviction"], &["create"]),
        rule("", CORE_WRITE, WRITE),
        rule("", &["secrets", "serviceaccounts", "services/proxy"], WRITE),
        rule("", &["serviceaccounts/token"], &["create"]),
        rule("apps", APPS_WRITE, WRITE),
        rule("autoscaling", &["horizontalpodautoscalers"], WRITE),
        rule("batch", &["cronjobs", "jobs"], WRITE),
        rule("coordination.k8s.io", &["leases"], &[READ, WRITE].concat()),
        rule("networking.k8s.io", NETWORK, WRITE),
        rule("policy", &["poddisruptionbudgets"], WRITE),
    ])
}

fn view() -> Value {
    json!([
        rule("", CORE_READ, READ),
        rule("apps", APPS_READ, READ),
        rule("autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"], READ),
        rule("batch", BATCH_READ, READ),
        rule("discovery.k8s.io", &["endpointslices"], READ),
        rule("networking.k8s.io", NETWORK_READ, READ),
        rule("policy", POLICY_READ, READ),
    ])
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn paths(paths: &[&str]) -> Value {
    json!({"nonResourceURLs": paths, "verbs": ["get"]})
}

fn role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata(name), "rules": rules,
    })
}

/// A role that is part of another.
fn part(name: &str, of: &str, rules: &Value) -> Value {
    let mut role = role(name, rules);
    role["metadata"]["labels"][format!("{AGGREGATE}-{of}")] = "true".into();
    role
}

/// A role that is made of others, and may be part of another itself.
fn aggregated(name: &str, part_of: Option<&str>) -> Value {
    let mut role = part_of.map_or_else(|| role(name, &json!([])), |of| part(name, of, &json!([])));
    let selector = json!({"matchLabels": {format!("{AGGREGATE}-{name}"): "true"}});
    role["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
    role
}

fn binding(role: &str, groups: &[&str]) -> Value {
    let subject = |group: &&str| json!({"apiGroup": GROUP, "kind": "Group", "name": group});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata(role),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
    })
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}
