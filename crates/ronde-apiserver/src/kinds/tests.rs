//! Objects on their way from a client to the store, as the registry sends them. What is refused, and for which field, is
//! what the real server refuses.

#![expect(clippy::needless_pass_by_value, reason = "rows with a plain `json!` read better")]

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    invalid,
    pod_admission::{NO_PRIORITY, admit_pod, admit_pod_update, admit_service_account},
    rules, service, validate, validate_status,
    warnings::warnings,
};
use crate::schema::{Node, builtin, strict};

const NOW: &str = "2026-01-02T03:04:05Z";

/// Every kind with rules.
const KINDS: [(&str, &str); 30] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "Pod"),
    ("", "Service"),
    ("", "Endpoints"),
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("", "Event"),
    ("", "PersistentVolumeClaim"),
    ("", "PersistentVolume"),
    ("", "ResourceQuota"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apps", "ControllerRevision"),
    ("batch", "Job"),
    ("policy", "PodDisruptionBudget"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("coordination.k8s.io", "Lease"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("events.k8s.io", "Event"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "IngressClass"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("storage.k8s.io", "StorageClass"),
];

fn group(object: &Value) -> &str {
    object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group)
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().expect("a kind")
}

fn schema(object: &Value) -> Node<'static> {
    let version = object["apiVersion"].as_str().and_then(|version| version.rsplit('/').next()).expect("a version");
    builtin::root(group(object), version, kind(object)).expect("a schema")
}

/// Brings an object into the form of its schema.
fn conform(object: &mut Value) {
    let schema = schema(object);
    strict::decode(object, schema).expect("fields of the right type");
    strict::complete(object, schema);
}

/// Returns what is stored for a new object, or the message of the error.
fn create(mut object: Value) -> Result<Value, String> {
    let (group, kind) = (group(&object).to_owned(), kind(&object).to_owned());
    let rules = rules(&group, &kind).expect("rules");
    let meta = object["metadata"].as_object_mut().expect("metadata");
    meta.entry("name").or_insert_with(|| "x".into());
    meta.insert("uid".to_owned(), "u".into());
    meta.insert("creationTimestamp".to_owned(), NOW.into());
    if rules.namespaced {
        meta.insert("namespace".to_owned(), "default".into());
    }
    conform(&mut object);
    (rules.default)(&mut object);
    if kind == "Pod" {
        admit_service_account(&mut object, "abcde", &Value::Null);
        admit_pod(&mut object, NO_PRIORITY).map_err(|error| error.message)?;
    }
    (rules.prepare_create)(&mut object, NOW);
    if rules.has_generation() {
        object["metadata"]["generation"] = 1.into();
    }
    if service::needs_cluster_ip(&object) && kind == "Service" {
        service::set_cluster_ip(&mut object, "10.96.0.7");
    }
    answer(&group, &kind, object, |object| validate(rules, object, None))
}

/// Returns what a merge patch makes of a stored object, or the message of the error.
fn update(old: &Value, change: &Value, subresource: &str) -> Result<Value, String> {
    let (group, kind) = (group(old).to_owned(), kind(old).to_owned());
    let rules = rules(&group, &kind).expect("rules");
    let mut old = old.clone();
    old["metadata"]["resourceVersion"] = "1".into();
    let mut new = old.clone();
    json_patch::merge(&mut new, change);
    conform(&mut new);
    (rules.default)(&mut new);
    if subresource == "status" {
        (rules.prepare_status)(&mut new, &old, NOW);
        return answer(&group, &kind, new, |new| validate_status(rules, new, &old));
    }
    if kind == "Pod" {
        admit_pod_update(&mut new, &old);
    }
    (rules.prepare_update)(&mut new, &old);
    answer(&group, &kind, new, |new| validate(rules, new, Some(&old)))
}

fn answer(
    group: &str,
    kind: &str,
    mut object: Value,
    check: impl Fn(&Value) -> Vec<crate::error::FieldError>,
) -> Result<Value, String> {
    let errors = check(&object);
    if errors.is_empty() {
        let schema = schema(&object);
        strict::fill(&mut object, schema);
        return Ok(object);
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(invalid(group, kind, name, &errors).message)
}

fn check_filled(name: &str, object: Value, pointer: &str, expected: Value) {
    let stored = create(object).unwrap_or_else(|message| panic!("{name}: refused: {message}"));
    let found = stored.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(found, expected, "{name}: {pointer} in {stored:#}");
}

fn check_refused(name: &str, object: Value, expected: &str) {
    let message = create(object).err().unwrap_or_else(|| panic!("{name}: accepted"));
    assert_eq!(message, expected, "{name}");
}

fn check_change(name: &str, old: &Value, change: Value, expected: Result<(), &str>) {
    check_change_of("", name, old, change, expected);
}

fn check_change_of(subresource: &str, name: &str, old: &Value, change: Value, expected: Result<(), &str>) {
    let answer = update(old, &change, subresource).map(|_| ());
    assert_eq!(answer, expected.map_err(str::to_owned), "{name}");
}

fn object(api_version: &str, kind: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
    json_patch::merge(&mut object, &rest);
    object
}

fn pod(spec: Value) -> Value {
    let mut base = json!({"containers": [{"name": "c", "image": "b:1"}]});
    json_patch::merge(&mut base, &spec);
    object("v1", "Pod", json!({"spec": base}))
}

fn container(rest: Value) -> Value {
    let mut container = json!({"name": "c", "image": "b:1"});
    json_patch::merge(&mut container, &rest);
    pod(json!({"containers": [container]}))
}

fn workload(kind: &str, spec: Value) -> Value {
    let mut base = json!({
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "b:1"}]}},
    });
    json_patch::merge(&mut base, &spec);
    object("apps/v1", kind, json!({"spec": base}))
}

fn job(spec: Value) -> Value {
    let mut base =
        json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "b:1"}]}}});
    json_patch::merge(&mut base, &spec);
    object("batch/v1", "Job", json!({"spec": base}))
}

fn service(spec: Value) -> Value {
    object("v1", "Service", json!({"spec": spec}))
}

#[test]
fn a_minimal_pod_is_completed_as_by_the_real_server() {
    let lost = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let token = json!({"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]});
    let mount = json!({
        "name": "kube-api-access-abcde", "readOnly": true,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    });
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "x", "namespace": "default", "uid": "u", "creationTimestamp": NOW, "generation": 1,
        },
        "spec": {
            "containers": [{
                "name": "c", "image": "b:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "volumeMounts": [mount],
            }],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0, "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
            "serviceAccount": "default", "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
            "tolerations": [lost("node.kubernetes.io/not-ready"), lost("node.kubernetes.io/unreachable")],
            "volumes": [{"name": "kube-api-access-abcde", "projected": token}],
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    });
    assert_eq!(create(pod(json!({"hostNetwork": false, "nodeSelector": {}}))), Ok(expected));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn pods_get_defaults() {
    let spec = |field: &str| format!("/spec/{field}");
    let first = |field: &str| format!("/spec/containers/0/{field}");
    let limits = json!({"resources": {"limits": {"cpu": "1000m", "memory": "0.5Gi"}, "requests": {"cpu": 0.25}}});
    check_filled(
        "requests follow limits",
        container(limits),
        &first("resources/requests"),
        json!({"cpu": "250m", "memory": "512Mi"}),
    );
    check_filled(
        "tiny amounts are rounded up",
        container(json!({"resources": {"requests": {"cpu": "1u"}}})),
        &first("resources/requests/cpu"),
        json!("1m"),
    );
    check_filled(
        "latest is always pulled",
        container(json!({"image": "b"})),
        &first("imagePullPolicy"),
        json!("Always"),
    );
    check_filled(
        "ports are TCP",
        container(json!({"ports": [{"containerPort": 1, "hostPort": 0}]})),
        &first("ports/0"),
        json!({"containerPort": 1, "protocol": "TCP"}),
    );
    check_filled(
        "fields have a version",
        container(json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]})),
        &first("env/0/valueFrom/fieldRef/apiVersion"),
        json!("v1"),
    );
    check_filled(
        "divisors are shown",
        container(json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]})),
        &first("env/0/valueFrom/resourceFieldRef/divisor"),
        json!("0"),
    );
    check_filled(
        "probes",
        container(json!({"livenessProbe": {"httpGet": {"port": 80}}})),
        &first("livenessProbe"),
        json!({"failureThreshold": 3, "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}),
    );
    check_filled(
        "a volume without source is an empty folder",
        pod(json!({"volumes": [{"name": "v"}]})),
        &spec("volumes/0/emptyDir"),
        json!({}),
    );
    check_filled(
        "modes of files",
        pod(json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]})),
        &spec("volumes/0/secret/defaultMode"),
        json!(420),
    );
    check_filled(
        "an old field names the account",
        pod(json!({"serviceAccount": "a"})),
        &spec("serviceAccountName"),
        json!("a"),
    );
    check_filled(
        "ports of the host",
        pod(json!({"hostNetwork": true, "containers": [{"name": "c", "image": "b", "ports": [{"containerPort": 8}]}]})),
        &first("ports/0/hostPort"),
        json!(8),
    );
    check_filled(
        "a gate is a condition",
        pod(json!({"schedulingGates": [{"name": "a/b"}]})),
        "/status/conditions/0/reason",
        json!("SchedulingGated"),
    );
    check_filled(
        "features that are off leave nothing",
        container(json!({"restartPolicy": "Never", "lifecycle": {"stopSignal": "SIGTERM"}})),
        &first("lifecycle"),
        Value::Null,
    );
    check_filled(
        "a negative grace period is one second",
        pod(json!({"terminationGracePeriodSeconds": -5})),
        &spec("terminationGracePeriodSeconds"),
        json!(1),
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn other_kinds_get_defaults() {
    let data = |kind: &str, rest: Value| object("v1", kind, rest);
    check_filled(
        "deployments roll",
        workload("Deployment", json!({})),
        "/spec/strategy",
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
    );
    check_filled(
        "limits of templates stay as they are",
        workload(
            "Deployment",
            json!({"template": {"spec": {"containers": [{"name": "c", "image": "b", "resources": {"limits": {"cpu": 1}}}]}}}),
        ),
        "/spec/template/spec/containers/0/resources",
        json!({"limits": {"cpu": "1"}}),
    );
    check_filled(
        "status is cleared",
        workload("ReplicaSet", json!({"replicas": 0})),
        "/status",
        json!({"replicas": 0}),
    );
    check_filled(
        "claims of stateful sets",
        workload(
            "StatefulSet",
            json!({"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}}]}),
        ),
        "/spec/volumeClaimTemplates/0",
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
    );
    let labels = json!({"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "x", "controller-uid": "u", "job-name": "x"});
    check_filled("jobs label their pods", job(json!({})), "/spec/template/metadata/labels", labels.clone());
    check_filled("and themselves", job(json!({})), "/metadata/labels", labels);
    check_filled(
        "and select by uid",
        job(json!({})),
        "/spec/selector",
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}),
    );
    check_filled(
        "a job with parallelism has no completions",
        job(json!({"parallelism": 2})),
        "/spec/completions",
        Value::Null,
    );
    check_filled(
        "a service gets an address",
        service(json!({"selector": {"a": "b"}, "ports": [{"port": 80}]})),
        "/spec",
        json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "selector": {"a": "b"}, "sessionAffinity": "None", "type": "ClusterIP"}),
    );
    check_filled(
        "a headless one without selector may have both families",
        service(json!({"clusterIP": "None"})),
        "/spec/ipFamilies",
        json!(["IPv4", "IPv6"]),
    );
    check_filled(
        "text becomes data",
        data("Secret", json!({"stringData": {"a": "b"}, "data": {"a": "eA==", "c": ""}})),
        "/data",
        json!({"a": "Yg==", "c": ""}),
    );
    check_filled("a secret has a type", data("Secret", json!({})), "/type", json!("Opaque"));
    check_filled(
        "namespaces are held by a finalizer",
        data("Namespace", json!({"spec": {"finalizers": ["a/b"]}})),
        "/spec/finalizers",
        json!(["a/b", "kubernetes"]),
    );
    check_filled(
        "and know their name",
        data("Namespace", json!({})),
        "/metadata/labels",
        json!({"kubernetes.io/metadata.name": "x"}),
    );
    check_filled(
        "claims wait",
        data(
            "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}}),
        ),
        "/status",
        json!({"phase": "Pending"}),
    );
    check_filled(
        "nodes can give what they have",
        data("Node", json!({"status": {"capacity": {"cpu": "4000m"}}})),
        "/status/allocatable",
        json!({"cpu": "4"}),
    );
    check_filled(
        "subjects have a group",
        object(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}),
        ),
        "/subjects/0/apiGroup",
        json!("rbac.authorization.k8s.io"),
    );
    check_filled(
        "policies have types",
        object("networking.k8s.io/v1", "NetworkPolicy", json!({"spec": {"podSelector": {}, "egress": [{}]}})),
        "/spec/policyTypes",
        json!(["Ingress", "Egress"]),
    );
    check_filled(
        "empty lists that are always there are null",
        object("discovery.k8s.io/v1", "EndpointSlice", json!({"addressType": "FQDN", "endpoints": []})),
        "/endpoints",
        Value::Null,
    );
    check_filled(
        "classes",
        object("storage.k8s.io/v1", "StorageClass", json!({"provisioner": "p"})),
        "/volumeBindingMode",
        json!("Immediate"),
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn pods_with_mistakes_are_refused() {
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    check_refused(
        "no containers",
        pod(json!({"containers": []})),
        "Pod \"x\" is invalid: spec.containers: Required value",
    );
    check_refused(
        "a bad name",
        container(json!({"name": "A_"})),
        &format!("Pod \"x\" is invalid: spec.containers[0].name: Invalid value: \"A_\": {label}"),
    );
    check_refused(
        "several mistakes",
        container(json!({"image": null, "ports": [{"containerPort": 0}]})),
        "Pod \"x\" is invalid: [spec.containers[0].image: Required value, spec.containers[0].ports[0].containerPort: Required value]",
    );
    check_refused(
        "an unknown policy",
        pod(json!({"restartPolicy": "Maybe"})),
        "Pod \"x\" is invalid: spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\"",
    );
    check_refused(
        "a mount without volume",
        container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
        "Pod \"x\" is invalid: spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
    );
    check_refused(
        "more than the limit",
        container(json!({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}})),
        "Pod \"x\" is invalid: spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
    );
    check_refused(
        "a part of a device",
        container(json!({"resources": {"limits": {"nvidia.com/gpu": "500m"}}})),
        "Pod \"x\" is invalid: [spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer, spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer]",
    );
    check_refused(
        "a negative amount",
        container(json!({"resources": {"requests": {"memory": -1}}})),
        "Pod \"x\" is invalid: spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
    );
    check_refused(
        "two sources",
        pod(json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]})),
        "Pod \"x\" is invalid: spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    );
    check_refused(
        "a probe that does nothing",
        container(json!({"livenessProbe": {}})),
        "Pod \"x\" is invalid: spec.containers[0].livenessProbe: Required value: must specify a handler type",
    );
    check_refused(
        "a priority of its own",
        pod(json!({"priority": 5})),
        "pods \"x\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name",
    );
    check_refused(
        "two names",
        pod(json!({"initContainers": [{"name": "c", "image": "b"}]})),
        "Pod \"x\" is invalid: spec.initContainers[0].name: Duplicate value: \"c\"",
    );
    check_refused(
        "a finalizer without domain",
        object(
            "v1",
            "Pod",
            json!({"metadata": {"finalizers": ["f"]}, "spec": {"containers": [{"name": "c", "image": "b"}]}}),
        ),
        "Pod \"x\" is invalid: metadata.finalizers[0]: Invalid value: \"f\": name is neither a standard finalizer name nor is it fully qualified",
    );
    check_refused(
        "rights that exclude each other",
        container(json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": false}})),
        "Pod \"x\" is invalid: spec.containers[0].securityContext: Invalid value: {\"allowPrivilegeEscalation\":false,\"privileged\":true}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn other_objects_with_mistakes_are_refused() {
    let core = |kind: &str, rest: Value| object("v1", kind, rest);
    check_refused(
        "a selector of other pods",
        workload("Deployment", json!({"selector": {"matchLabels": {"a": "c"}}})),
        "Deployment.apps \"x\" is invalid: spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
    );
    check_refused(
        "pods that end",
        workload("Deployment", json!({"template": {"spec": {"restartPolicy": "Never"}}})),
        "Deployment.apps \"x\" is invalid: spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
    );
    check_refused(
        "no selector",
        workload("StatefulSet", json!({"selector": null})),
        "StatefulSet.apps \"x\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`]",
    );
    check_refused(
        "pods that never end",
        job(json!({"template": {"spec": {"restartPolicy": null}}})),
        "Job.batch \"x\" is invalid: spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
    );
    check_refused(
        "indexes without number",
        job(json!({"completionMode": "Indexed", "parallelism": 1})),
        "Job.batch \"x\" is invalid: spec.completions: Required value: when completion mode is Indexed",
    );
    check_refused(
        "an action without limit",
        job(
            json!({"podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}]}}),
        ),
        "Job.batch \"x\" is invalid: spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
    );
    check_refused(
        "a service without ports",
        service(json!({})),
        "Service \"x\" is invalid: spec.ports: Required value",
    );
    check_refused(
        "a family that is not there",
        service(json!({"ipFamilies": ["IPv6"], "ports": [{"port": 1}]})),
        "Service \"x\" is invalid: spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
    );
    check_refused(
        "two ports without names",
        service(json!({"ports": [{"port": 1}, {"port": 2}]})),
        "Service \"x\" is invalid: [spec.ports[0].name: Required value, spec.ports[1].name: Required value]",
    );
    check_refused(
        "a key with a space",
        core("ConfigMap", json!({"data": {"a b": "c"}})),
        "ConfigMap \"x\" is invalid: data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
    );
    check_refused(
        "a large map",
        core("ConfigMap", json!({"data": {"a": "x".repeat(1_048_577)}})),
        "ConfigMap \"x\" is invalid: []: Too long: may not be more than 1048576 bytes",
    );
    check_refused(
        "a pair with one half",
        core("Secret", json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}})),
        "Secret \"x\" is invalid: data[tls.key]: Required value",
    );
    check_refused(
        "an event elsewhere",
        core("Event", json!({"involvedObject": {"namespace": "other"}})),
        "Event \"x\" is invalid: involvedObject.namespace: Invalid value: \"other\": does not match event.namespace",
    );
    check_refused(
        "a strict event",
        object("events.k8s.io/v1", "Event", json!({"regarding": {"namespace": "default"}})),
        "Event \"x\" is invalid: [eventTime: Required value, type: Invalid value: \"\": has invalid value: ]",
    );
    check_refused(
        "a taint twice",
        core(
            "Node",
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}}),
        ),
        "Node \"x\" is invalid: metadata.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints must be unique by key and effect pair",
    );
    check_refused(
        "a claim of nothing",
        core("PersistentVolumeClaim", json!({"spec": {}})),
        "PersistentVolumeClaim \"x\" is invalid: [spec.accessModes: Required value: at least 1 access mode is required, spec.resources[storage]: Required value]",
    );
    check_refused(
        "a volume of nothing",
        core("PersistentVolume", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}}})),
        "PersistentVolume \"x\" is invalid: spec: Required value: must specify a volume type",
    );
    check_refused(
        "both bounds",
        object("policy/v1", "PodDisruptionBudget", json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}})),
        "PodDisruptionBudget.policy \"x\" is invalid: spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set",
    );
    check_refused(
        "a priority of the system",
        object("scheduling.k8s.io/v1", "PriorityClass", json!({"value": 1_000_000_001})),
        "PriorityClass.scheduling.k8s.io \"x\" is invalid: value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
    );
    check_refused(
        "a lease of no time",
        object("coordination.k8s.io/v1", "Lease", json!({"spec": {"leaseDurationSeconds": 0}})),
        "Lease.coordination.k8s.io \"x\" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
    );
    check_refused(
        "no type of address",
        object("discovery.k8s.io/v1", "EndpointSlice", json!({})),
        "EndpointSlice.discovery.k8s.io \"x\" is invalid: addressType: Required value",
    );
    check_refused(
        "a rule without verbs",
        object("rbac.authorization.k8s.io/v1", "Role", json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]})),
        "Role.rbac.authorization.k8s.io \"x\" is invalid: rules[0].verbs: Required value: verbs must contain at least one value",
    );
    check_refused(
        "no provisioner",
        object("storage.k8s.io/v1", "StorageClass", json!({})),
        "StorageClass.storage.k8s.io \"x\" is invalid: provisioner: Required value",
    );
}

#[test]
fn pods_hardly_change() {
    let old = create(pod(json!({"tolerations": [{"key": "a", "operator": "Exists"}]}))).expect("a valid pod");
    let image = json!({"spec": {"containers": [{"name": "c", "image": "b:2"}]}});
    let mut mounted = image.clone();
    mounted["spec"]["containers"][0]["volumeMounts"] = old["spec"]["containers"][0]["volumeMounts"].clone();
    check_change("labels", &old, json!({"metadata": {"labels": {"a": "b"}}}), Ok(()));
    check_change("an image", &old, mounted, Ok(()));
    check_change("a deadline", &old, json!({"spec": {"activeDeadlineSeconds": 5}}), Ok(()));
    check_change(
        "more containers",
        &old,
        json!({"spec": {"containers": []}}),
        Err(
            "Pod \"x\" is invalid: [spec.containers: Required value, spec.containers: Forbidden: pod updates may not add or remove containers]",
        ),
    );
    check_change(
        "fewer tolerations",
        &old,
        json!({"spec": {"tolerations": []}}),
        Err(
            "Pod \"x\" is invalid: spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ),
    );
    let expected = "Pod \"x\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative) (changed: hostNetwork, nodeName)";
    check_change("the rest", &old, json!({"spec": {"nodeName": "n", "hostNetwork": true}}), Err(expected));
    check_change_of(
        "status",
        "the class of service",
        &old,
        json!({"status": {"qosClass": "Guaranteed"}}),
        Err("Pod \"x\" is invalid: status.qosClass: Invalid value: \"Guaranteed\": field is immutable"),
    );
    check_change_of(
        "status",
        "what runs",
        &old,
        json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}),
        Ok(()),
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn some_fields_never_change() {
    let deployment = create(workload("Deployment", json!({}))).expect("valid");
    let new_labels =
        json!({"spec": {"selector": {"matchLabels": {"c": "d"}}, "template": {"metadata": {"labels": {"c": "d"}}}}});
    check_change(
        "a selector",
        &deployment,
        new_labels.clone(),
        Err(
            "Deployment.apps \"x\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"c\":\"d\"}}: field is immutable",
        ),
    );
    let set = create(workload("StatefulSet", json!({}))).expect("valid");
    check_change(
        "the service of a set",
        &set,
        json!({"spec": {"serviceName": "s"}}),
        Err(
            "StatefulSet.apps \"x\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ),
    );
    check_change("its size", &set, json!({"spec": {"replicas": 3}}), Ok(()));
    let run = create(job(json!({}))).expect("valid");
    check_change(
        "completions",
        &run,
        json!({"spec": {"completions": 2}}),
        Err("Job.batch \"x\" is invalid: spec.completions: Invalid value: 2: field is immutable"),
    );
    let message =
        update(&run, &json!({"spec": {"template": {"spec": {"schedulerName": "s"}}}}), "").expect_err("refused");
    assert!(
        message.starts_with("Job.batch \"x\" is invalid: spec.template: Invalid value: {\"metadata\":{\"labels\":{"),
        "{message}"
    );
    assert!(message.ends_with("}}: field is immutable"), "{message}");
    let address = create(service(json!({"ports": [{"port": 1}]}))).expect("valid");
    check_change(
        "an address",
        &address,
        json!({"spec": {"clusterIP": "10.96.0.9"}}),
        Err("Service \"x\" is invalid: spec.clusterIPs[0]: Invalid value: [\"10.96.0.9\"]: may not change once set"),
    );
    check_change(
        "an address that is left out",
        &address,
        json!({"spec": {"clusterIP": null, "clusterIPs": null}}),
        Ok(()),
    );
    let frozen = create(object("v1", "ConfigMap", json!({"immutable": true, "data": {"a": "b"}}))).expect("valid");
    check_change(
        "frozen data",
        &frozen,
        json!({"immutable": false, "data": {"a": "c"}}),
        Err(
            "ConfigMap \"x\" is invalid: [immutable: Forbidden: field is immutable when `immutable` is set, data: Forbidden: field is immutable when `immutable` is set]",
        ),
    );
    let secret = create(object("v1", "Secret", json!({}))).expect("valid");
    check_change(
        "the type of a secret",
        &secret,
        json!({"type": "a/b"}),
        Err("Secret \"x\" is invalid: type: Invalid value: \"a/b\": field is immutable"),
    );
    let claim = create(object(
        "v1",
        "PersistentVolumeClaim",
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    ))
    .expect("valid");
    check_change("a volume for a claim", &claim, json!({"spec": {"volumeName": "v"}}), Ok(()));
    check_change(
        "a mode of a claim",
        &claim,
        json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
        Err(
            "PersistentVolumeClaim \"x\" is invalid: spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims (changed: accessModes)",
        ),
    );
    let class = create(object("scheduling.k8s.io/v1", "PriorityClass", json!({"value": 5}))).expect("valid");
    check_change(
        "a priority",
        &class,
        json!({"value": 6}),
        Err("PriorityClass.scheduling.k8s.io \"x\" is invalid: value: Forbidden: may not be changed in an update."),
    );
    let binding = create(object(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}}),
    ))
    .expect("valid");
    check_change(
        "a role",
        &binding,
        json!({"roleRef": {"name": "s"}}),
        Err(
            "RoleBinding.rbac.authorization.k8s.io \"x\" is invalid: roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"Role\",\"name\":\"s\"}: cannot change roleRef",
        ),
    );
    check_change(
        "a name",
        &secret,
        json!({"metadata": {"name": "z"}}),
        Err("Secret \"z\" is invalid: metadata.name: Invalid value: \"z\": field is immutable"),
    );
}

#[test]
fn generations_grow_with_what_is_asked_for() {
    let grows = |old: Value, change: Value| {
        let old = create(old).expect("valid");
        let new = update(&old, &change, "").expect("valid");
        rules(group(&old), kind(&old)).expect("rules").increases_generation(&new, &old)
    };
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let annotations = json!({"metadata": {"annotations": {"a": "b"}}});
    assert!(grows(workload("Deployment", json!({})), json!({"spec": {"replicas": 2}})), "a size");
    assert!(grows(workload("Deployment", json!({})), annotations.clone()), "annotations of a deployment");
    assert!(!grows(workload("ReplicaSet", json!({})), annotations), "annotations of a replica set");
    assert!(!grows(workload("Deployment", json!({})), labels.clone()), "labels");
    assert!(!grows(pod(json!({})), json!({"status": {"phase": "Running"}})), "status through the main resource");
    assert!(
        grows(object("discovery.k8s.io/v1", "EndpointSlice", json!({"addressType": "IPv4"})), labels),
        "labels of a slice"
    );
}

#[test]
fn the_server_warns_of_what_it_takes_nevertheless() {
    let check = |name: &str, object: Value, expected: &[&str]| {
        let stored = create(object).unwrap_or_else(|message| panic!("{name}: {message}"));
        assert_eq!(warnings(group(&stored), kind(&stored), &stored, None), expected, "{name}");
    };
    let twice =
        json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "$(A)3"}]});
    check("nothing", pod(json!({})), &[]);
    check(
        "a variable twice",
        container(twice),
        &["spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply"],
    );
    check(
        "a spread of nothing",
        pod(
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}),
        ),
        &["spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"],
    );
    check(
        "an ignored field",
        service(json!({"clusterIP": "None", "externalIPs": ["5.6.7.8"]})),
        &["spec.externalIPs is ignored for headless services"],
    );
    check(
        "a template",
        workload("Deployment", json!({"template": {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}})),
        &[
            "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ],
    );
}

/// The names of all fields of built-in kinds.
fn field_names() -> Vec<String> {
    let definitions = builtin::definitions(builtin::KINDS);
    let fields = definitions.values().filter_map(|definition| definition["properties"].as_object());
    let mut names: Vec<String> = fields.flat_map(|fields| fields.keys().cloned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Values of any shape with fields that built-in kinds have: nothing a decoder would let pass is worse.
fn any_value() -> impl Strategy<Value = Value> {
    let texts = ["", "a", "A_", "None", "Always", "Local", "10.0.0.1", "10.0.0.0/8", "1Gi", "-1", "é/ü"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..70_000).prop_map(Value::from),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
    ];
    let names = field_names();
    leaf.prop_recursive(6, 80, 6, move |inner| {
        let key = prop::sample::select(names.clone());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_that_a_client_sends_stops_the_server(spec in any_value(), old_spec in any_value(), rest in any_value()) {
        for (group, kind) in KINDS {
            let rules = rules(group, kind).expect("rules");
            let make = |spec: &Value| {
                let mut object = json!({"metadata": {"name": "x"}, "spec": spec, "status": spec});
                json_patch::merge(&mut object, &json!({"template": rest, "data": rest, "metadata": rest}));
                (rules.default)(&mut object);
                object
            };
            let (mut new, old) = (make(&spec), make(&old_spec));
            validate(rules, &new, Some(&old));
            validate_status(rules, &new, &old);
            (rules.prepare_status)(&mut new, &old, NOW);
            (rules.prepare_update)(&mut new, &old);
            (rules.prepare_create)(&mut new, NOW);
            validate(rules, &new, None);
            warnings(group, kind, &new, Some(&old));
        }
    }

    #[test]
    fn defaults_are_set_once(spec in any_value()) {
        for (group, kind) in KINDS {
            let rules = rules(group, kind).expect("rules");
            let mut once = json!({"metadata": {"name": "x"}, "spec": spec});
            (rules.default)(&mut once);
            let mut twice = once.clone();
            (rules.default)(&mut twice);
            prop_assert_eq!(&twice, &once, "{}", kind);
        }
    }
}
