//! Environments as users write them in manifests, and what comes out.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Container, Pod, Secret, Service},
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::{Value, from_value, json};

use super::{PodFacts, build, expand_command};

struct World {
    pod: Pod,
    container: Container,
    config_maps: BTreeMap<String, Arc<ConfigMap>>,
    secrets: BTreeMap<String, Arc<Secret>>,
    services: Vec<Service>,
}

fn world(container: Value) -> World {
    let container: Container = from_value(container).expect("a container");
    let pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "x"}, "annotations": {"note": "y"}},
        "spec": {"nodeName": "n", "serviceAccountName": "sa", "containers": [
            {"name": "other", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"memory": "10Mi"}}}
        ]},
    });
    let config = json!({"data": {"k": "v", "with-dash": "d"}, "binaryData": {"b": "AA=="}});
    let secret = json!({"data": {"password": "c2VjcmV0"}});
    World {
        pod: from_value(pod).expect("a pod"),
        container,
        config_maps: BTreeMap::from([("c".to_owned(), Arc::new(from_value(config).expect("a ConfigMap")))]),
        secrets: BTreeMap::from([("s".to_owned(), Arc::new(from_value(secret).expect("a Secret")))]),
        services: Vec::new(),
    }
}

impl World {
    fn service(mut self, name: &str, namespace: &str, spec: Value) -> Self {
        let service = json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec});
        self.services.push(from_value(service).expect("a service"));
        self
    }

    fn build(&self) -> Result<String, String> {
        let allocatable =
            [("cpu", "4"), ("memory", "8Gi")].map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
        let facts = PodFacts {
            pod: &self.pod,
            host_ip: IpAddr::from([192, 168, 0, 1]),
            pod_ip: Some(IpAddr::from([10, 1, 0, 7])),
            allocatable: &BTreeMap::from(allocatable),
            config_maps: &self.config_maps,
            secrets: &self.secrets,
        };
        let variables = build(&facts, &self.container, &self.services).map_err(|error| error.to_string())?;
        Ok(variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    }
}

fn check(name: &str, container: Value, expected: Result<&str, &str>) {
    let built = world(container).build();
    assert_eq!(built.as_deref().map_err(String::as_str), expected, "{name}");
}

#[test]
fn literals_and_references() {
    let env = |env: Value| json!({"name": "a", "env": env});
    let rows = [
        ("in the order given", env(json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}])), "B=2 A=1"),
        (
            "earlier ones are known",
            env(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}])),
            "A=1 B=1$(C)",
        ),
        ("later ones are not", env(json!([{"name": "B", "value": "$(A)"}, {"name": "A", "value": "1"}])), "B=$(A) A=1"),
        (
            "the last value counts",
            env(json!([{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "$(A)2"}])),
            "A=12 B=",
        ),
    ];
    for (name, container, expected) in rows {
        check(name, container, Ok(expected));
    }
}

#[test]
fn fields_of_the_pod() {
    let rows = [
        ("metadata.name", Ok("V=p")),
        ("metadata.namespace", Ok("V=ns")),
        ("metadata.uid", Ok("V=u")),
        ("metadata.labels['app']", Ok("V=x")),
        ("metadata.annotations['note']", Ok("V=y")),
        ("metadata.annotations['none']", Ok("V=")),
        ("metadata.labels", Ok("V=app=\"x\"")),
        ("spec.nodeName", Ok("V=n")),
        ("spec.serviceAccountName", Ok("V=sa")),
        ("status.hostIP", Ok("V=192.168.0.1")),
        ("status.hostIPs", Ok("V=192.168.0.1")),
        ("status.podIP", Ok("V=10.1.0.7")),
        ("status.podIPs", Ok("V=10.1.0.7")),
        ("status.phase", Err("unsupported fieldPath: status.phase")),
        ("metadata.name['x']", Err("fieldPath \"metadata.name['x']\" does not support subscript")),
    ];
    for (path, expected) in rows {
        check(
            path,
            json!({"name": "a", "env": [{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}}]}),
            expected,
        );
    }
}

#[test]
fn amounts_of_resources() {
    let rows = [
        ("its own limit", json!({"resource": "limits.cpu"}), Ok("V=1")),
        ("in thousandths", json!({"resource": "limits.cpu", "divisor": "1m"}), Ok("V=500")),
        ("no limit means all of the node", json!({"resource": "limits.memory", "divisor": "1Gi"}), Ok("V=8")),
        ("no request means none", json!({"resource": "requests.cpu"}), Ok("V=0")),
        ("of another container, rounded up", json!({"resource": "limits.cpu", "containerName": "other"}), Ok("V=2")),
        (
            "memory in bytes",
            json!({"resource": "requests.memory", "containerName": "other", "divisor": "0"}),
            Ok("V=10485760"),
        ),
        ("huge pages", json!({"resource": "limits.hugepages-2Mi"}), Ok("V=0")),
        ("no such container", json!({"resource": "limits.cpu", "containerName": "x"}), Err("container x not found")),
        ("no such resource", json!({"resource": "limits.gpu"}), Err("unsupported container resource : limits.gpu")),
    ];
    for (name, selector, expected) in rows {
        let env = json!([{"name": "V", "valueFrom": {"resourceFieldRef": selector}}]);
        check(name, json!({"name": "a", "resources": {"limits": {"cpu": "500m"}}, "env": env}), expected);
    }
}

#[test]
fn config_maps_and_secrets() {
    let from = |source: Value| json!({"name": "a", "envFrom": [source], "env": [{"name": "k", "value": "own"}]});
    let key = |source: Value| json!({"name": "a", "env": [{"name": "V", "valueFrom": source}]});
    let rows = [
        ("all keys, its own last", from(json!({"configMapRef": {"name": "c"}})), Ok("k=own with-dash=d")),
        (
            "with a prefix",
            from(json!({"prefix": "P_", "configMapRef": {"name": "c"}})),
            Ok("P_k=v P_with-dash=d k=own"),
        ),
        ("a secret", from(json!({"secretRef": {"name": "s"}})), Ok("password=secret k=own")),
        ("none", from(json!({"configMapRef": {"name": "x"}})), Err("configmap \"x\" not found")),
        ("no secret", from(json!({"secretRef": {"name": "x"}})), Err("secret \"x\" not found")),
        ("none, but optional", from(json!({"secretRef": {"name": "x", "optional": true}})), Ok("k=own")),
        ("one key", key(json!({"configMapKeyRef": {"name": "c", "key": "k"}})), Ok("V=v")),
        ("one key of a secret", key(json!({"secretKeyRef": {"name": "s", "key": "password"}})), Ok("V=secret")),
        (
            "no such key",
            key(json!({"configMapKeyRef": {"name": "c", "key": "x"}})),
            Err("couldn't find key x in ConfigMap ns/c"),
        ),
        (
            "binary keys are not for the environment",
            key(json!({"configMapKeyRef": {"name": "c", "key": "b"}})),
            Err("couldn't find key b in ConfigMap ns/c"),
        ),
        (
            "no such key of a secret",
            key(json!({"secretKeyRef": {"name": "s", "key": "x"}})),
            Err("couldn't find key x in Secret ns/s"),
        ),
        (
            "no such key, but optional",
            key(json!({"secretKeyRef": {"name": "s", "key": "x", "optional": true}})),
            Ok(""),
        ),
        (
            "nothing at all, but optional",
            key(json!({"configMapKeyRef": {"name": "x", "key": "x", "optional": true}})),
            Ok(""),
        ),
        ("nothing at all", key(json!({"secretKeyRef": {"name": "x", "key": "x"}})), Err("secret \"x\" not found")),
    ];
    for (name, container, expected) in rows {
        check(name, container, expected);
    }
}

#[test]
fn services_are_told() {
    let ports = json!([{"name": "sql", "port": 5432}, {"name": "m-x", "port": 9, "protocol": "UDP"}]);
    let db = json!({"clusterIP": "10.96.0.5", "ports": ports});
    let api = || json!({"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP"}]});
    let env = json!([{"name": "URL", "value": "$(MY_DB_PORT)"}, {"name": "MY_DB_SERVICE_PORT", "value": "own"}]);
    let mut world = world(json!({"name": "a", "env": env}))
        .service("my-db", "ns", db)
        .service("kubernetes", "default", api())
        .service("headless", "ns", json!({"clusterIP": "None", "ports": [{"port": 1}]}))
        .service("elsewhere", "other", api());
    let all = world.build().expect("builds");
    let expected = "URL=tcp://10.96.0.5:5432 MY_DB_SERVICE_PORT=own KUBERNETES_PORT=tcp://10.96.0.1:443 \
        KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443 KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1 KUBERNETES_PORT_443_TCP_PORT=443 \
        KUBERNETES_PORT_443_TCP_PROTO=tcp KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443 \
        KUBERNETES_SERVICE_PORT_HTTPS=443 MY_DB_PORT=tcp://10.96.0.5:5432 MY_DB_PORT_5432_TCP=tcp://10.96.0.5:5432 \
        MY_DB_PORT_5432_TCP_ADDR=10.96.0.5 MY_DB_PORT_5432_TCP_PORT=5432 MY_DB_PORT_5432_TCP_PROTO=tcp \
        MY_DB_PORT_9_UDP=udp://10.96.0.5:9 MY_DB_PORT_9_UDP_ADDR=10.96.0.5 MY_DB_PORT_9_UDP_PORT=9 \
        MY_DB_PORT_9_UDP_PROTO=udp MY_DB_SERVICE_HOST=10.96.0.5 MY_DB_SERVICE_PORT_M_X=9 MY_DB_SERVICE_PORT_SQL=5432";
    assert_eq!(all, expected);
    world.pod.spec.get_or_insert_default().enable_service_links = Some(false);
    let without_links = world.build().expect("builds");
    assert!(!without_links.contains("MY_DB_PORT="), "{without_links}");
    assert!(without_links.contains("KUBERNETES_SERVICE_HOST=10.96.0.1"), "{without_links}");
}

#[test]
fn commands_are_expanded_from_the_environment() {
    let words = ["sh", "-c", "echo $(A) $(B) $$(A)"].map(str::to_owned);
    let environment = [("A".to_owned(), "1".to_owned())];
    assert_eq!(expand_command(&words, &environment), ["sh", "-c", "echo 1 $(B) $(A)"]);
}
