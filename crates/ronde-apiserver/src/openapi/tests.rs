use std::collections::BTreeSet;

use serde_json::from_slice;

use super::*;
use crate::discovery::SubresourceInfo;

const ALL_VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn info(group: &str, version: &str, kind: &str, plural: &str) -> ResourceInfo {
    ResourceInfo {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        short_names: vec![],
        categories: vec![],
        namespaced: kind != "Node",
        verbs: ALL_VERBS.to_vec(),
        subresources: vec![],
    }
}

fn with(mut info: ResourceInfo, name: &str, of: (&str, &str, &str), verbs: &[&'static str]) -> ResourceInfo {
    let (group, version, kind) = (of.0.into(), of.1.into(), of.2.into());
    info.subresources.push(SubresourceInfo { name: name.into(), group, version, kind, verbs: verbs.to_vec() });
    info
}

fn built(infos: &[ResourceInfo], schema: Option<&Value>) -> Value {
    let described: Vec<_> = infos.iter().map(|info| Described { info, schema }).collect();
    let document = document(&described, &infos[0].group, &infos[0].version).expect("something is served");
    from_slice(&document.body).expect("a document is JSON")
}

fn apps() -> Value {
    let change = &["get", "patch", "update"];
    let deployments = info("apps", "v1", "Deployment", "deployments");
    let deployments = with(deployments, "status", ("apps", "v1", "Deployment"), change);
    built(&[with(deployments, "scale", ("autoscaling", "v1", "Scale"), change)], None)
}

fn core() -> Value {
    let pods = with(info("", "v1", "Pod", "pods"), "exec", ("", "v1", "PodExecOptions"), &["create", "get"]);
    let pods = with(pods, "eviction", ("policy", "v1", "Eviction"), &["create"]);
    built(&[pods, info("", "v1", "Node", "nodes"), info("", "v1", "Service", "services")], None)
}

fn things() -> Value {
    let schema = json!({"type": "object", "description": "A thing.", "required": ["spec"], "properties": {
        "spec": {"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": true}}},
        "metadata": {"type": "object"},
    }});
    built(&[info("schema.example.com", "v1", "Thing", "things")], Some(&schema))
}

fn references(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(object) => {
            let own = object.get("$ref").and_then(Value::as_str).map(str::to_owned);
            object.values().flat_map(references).chain(own).collect()
        }
        Value::Array(list) => list.iter().flat_map(references).collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn all_references_lead_somewhere() {
    for document in [apps(), core(), things()] {
        for target in references(&document) {
            let name = target.strip_prefix("#/components/schemas/").expect("references are to components");
            assert!(document["components"]["schemas"].get(name).is_some(), "nothing at {name}");
        }
    }
}

#[test]
fn patches_take_field_validation() {
    for document in [apps(), core(), things()] {
        let paths = document["paths"].as_object().expect("paths");
        let patches = paths.values().filter_map(|path| path.get("patch"));
        let mut count = 0;
        for patch in patches {
            let names: Vec<_> = patch["parameters"].as_array().into_iter().flatten().map(|p| &p["name"]).collect();
            assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
            count += 1;
        }
        assert!(count > 0);
    }
}

#[test]
fn operations_carry_the_kind_and_name_of_the_real_ones() {
    let item = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let rows = [
        (
            "/apis/apps/v1/namespaces/{namespace}/deployments",
            "get",
            "listAppsV1NamespacedDeployment",
            "list",
            "Deployment",
        ),
        (
            "/apis/apps/v1/namespaces/{namespace}/deployments",
            "delete",
            "deleteAppsV1CollectionNamespacedDeployment",
            "deletecollection",
            "Deployment",
        ),
        ("/apis/apps/v1/deployments", "get", "listAppsV1DeploymentForAllNamespaces", "list", "Deployment"),
        (item, "put", "replaceAppsV1NamespacedDeployment", "put", "Deployment"),
        (&format!("{item}/scale"), "patch", "patchAppsV1NamespacedDeploymentScale", "patch", "Scale"),
    ];
    let apps = apps();
    for (path, method, id, action, kind) in rows {
        let operation = &apps["paths"][path][method];
        let found = ["operationId", "x-kubernetes-action"].map(|key| operation[key].as_str());
        assert_eq!(found, [Some(id), Some(action)]);
        assert_eq!(operation["x-kubernetes-group-version-kind"]["kind"], kind);
    }
    let core = core();
    let exec = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/exec"]["post"];
    assert_eq!(
        (&exec["operationId"], &exec["x-kubernetes-action"]),
        (&json!("connectCoreV1PostNamespacedPodExec"), &json!("connect"))
    );
    assert_eq!(core["paths"]["/api/v1/nodes"]["post"]["operationId"], "createCoreV1Node");
    assert!(core["paths"].get("/api/v1/namespaces/{namespace}/nodes").is_none());
}

#[test]
fn only_built_in_kinds_take_strategic_merge_patches() {
    let strategic = |document: &Value, path: &str| {
        document["paths"][path]["patch"]["requestBody"]["content"]
            .get("application/strategic-merge-patch+json")
            .is_some()
    };
    assert!(strategic(&apps(), "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"));
    assert!(!strategic(&things(), "/apis/schema.example.com/v1/namespaces/{namespace}/things/{name}"));
}

#[test]
fn schemas_carry_descriptions_kinds_and_merge_hints() {
    let apps = apps();
    let schemas = &apps["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
    );
    assert_eq!(deployment.get("required"), None);
    let spec = json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]);
    assert_eq!(deployment["properties"]["spec"]["allOf"], spec);
    assert!(deployment["properties"]["spec"]["description"].is_string());
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    let hints = ["list-type", "list-map-keys", "patch-strategy", "patch-merge-key"];
    let found = hints.map(|hint| containers[format!("x-kubernetes-{hint}")].clone());
    assert_eq!(found, [json!("map"), json!(["name"]), json!("merge"), json!("name")]);
    assert_eq!(schemas["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]["default"], "TCP");
    assert_eq!(schemas["io.k8s.api.apps.v1.DeploymentList"]["required"], json!(["items"]));
}

#[test]
fn custom_kinds_have_what_every_object_has() {
    let document = things();
    let thing = &document["components"]["schemas"]["com.example.schema.v1.Thing"];
    assert_eq!((&thing["description"], &thing["required"]), (&json!("A thing."), &json!(["spec"])));
    assert!(thing["properties"]["apiVersion"]["description"].is_string());
    let meta = json!([{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]);
    assert_eq!(thing["properties"]["metadata"]["allOf"], meta);
    let types = json!([{"type": "integer"}, {"type": "string"}]);
    assert_eq!(thing["properties"]["spec"]["properties"]["port"]["anyOf"], types);
    let kind = json!([{"group": "schema.example.com", "version": "v1", "kind": "Thing"}]);
    assert_eq!(thing["x-kubernetes-group-version-kind"], kind);
}

#[test]
fn a_custom_kind_without_schema_is_any_object() {
    let document = built(&[info("example.com", "v1", "Any", "anys")], Some(&Value::Null));
    assert_eq!(document["components"]["schemas"]["com.example.v1.Any"]["type"], "object");
}

#[test]
fn the_index_leads_to_documents_by_their_hash() {
    let expected = json!({"paths": {
        "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=AB"},
        "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=CD"},
    }});
    assert_eq!(index([("", "v1", "AB"), ("apps", "v1", "CD")]), expected);
    let pods = info("", "v1", "Pod", "pods");
    let served = [Described { info: &pods, schema: None }];
    let first = document(&served, "", "v1");
    assert_eq!(first, document(&served, "", "v1"), "the same content, the same hash");
    assert_eq!(first.map(|document| document.hash.len()), Some(64));
    assert_eq!(document(&served, "apps", "v1"), None);
}

#[test]
fn version_2_exists() {
    assert_eq!(v2::protobuf(), b"\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned\x42\x00\x4a\x00");
    let pods = info("", "v1", "Pod", "pods");
    let document: Value = from_slice(&v2::json(&[Described { info: &pods, schema: None }]).body).expect("JSON");
    let spec = &document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
}
