//! Discovery: the documents that tell clients what is served, in the old form (one per group version) and the
//! aggregated one.
//!
//! Pure functions from the descriptions that the registry holds; HTTP, content types and caching are its callers'.
//! `storageVersionHash` is left out: nothing is ever migrated here.

use std::{cmp::Reverse, collections::BTreeSet};

use serde_json::{Value, json};

use crate::schema::builtin;

/// The order of the groups in the documents; clients prefer earlier ones. Others follow by name.
const GROUPS: [&str; 14] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];

/// What the aggregated documents are, in the `Accept` header and in themselves.
pub const AGGREGATED_VERSION: &str = "apidiscovery.k8s.io/v2";

/// A served resource as the documents describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceInfo {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<&'static str>,
    pub subresources: Vec<SubresourceInfo>,
}

/// A subresource, with the kind of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubresourceInfo {
    pub name: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<&'static str>,
}

impl ResourceInfo {
    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub fn subresource(&self, name: &str) -> Option<&SubresourceInfo> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    fn is_built_in(&self) -> bool {
        builtin::KINDS.iter().any(|k| (k.group, k.version, k.kind) == (&*self.group, &*self.version, &*self.kind))
    }
}

/// `/api`.
pub fn core_versions(server_address: &str) -> Value {
    let address = json!({"clientCIDR": "0.0.0.0/0", "serverAddress": server_address});
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]})
}

/// `/apis`.
pub fn group_list(infos: &[&ResourceInfo]) -> Value {
    let groups: Vec<Value> = groups(infos).into_iter().map(|group| group_versions(infos, group)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`, or none if nothing of that group is served.
pub fn group(infos: &[&ResourceInfo], name: &str) -> Option<Value> {
    if name.is_empty() || versions(infos, name).is_empty() {
        return None;
    }
    let mut document = group_versions(infos, name);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

/// `/api/v1` and `/apis/GROUP/VERSION`, or none if nothing of that version is served.
pub fn resource_list(infos: &[&ResourceInfo], group: &str, version: &str) -> Option<Value> {
    let found = resources(infos, group, version);
    let first = found.first()?;
    let mut document = json!({"kind": "APIResourceList", "groupVersion": first.api_version()});
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    document["resources"] = found.into_iter().flat_map(old_entries).collect();
    Some(document)
}

/// `/api` in the aggregated form.
pub fn aggregated_core(infos: &[&ResourceInfo]) -> Value {
    aggregated_list(&[aggregated_group(infos, "")])
}

/// `/apis` in the aggregated form.
pub fn aggregated_groups(infos: &[&ResourceInfo]) -> Value {
    let items: Vec<Value> = groups(infos).into_iter().map(|group| aggregated_group(infos, group)).collect();
    aggregated_list(&items)
}

fn aggregated_list(items: &[Value]) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": AGGREGATED_VERSION, "metadata": {}, "items": items})
}

fn aggregated_group(infos: &[&ResourceInfo], group: &str) -> Value {
    let entry = |version: &str| {
        let resources: Vec<Value> = resources(infos, group, version).into_iter().map(aggregated_entry).collect();
        json!({"version": version, "resources": resources, "freshness": "Current"})
    };
    let versions: Vec<Value> = versions(infos, group).into_iter().map(entry).collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn group_versions(infos: &[&ResourceInfo], group: &str) -> Value {
    let entry = |version: &&str| json!({"groupVersion": api_version(group, version), "version": version});
    let versions: Vec<Value> = versions(infos, group).iter().map(entry).collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}

/// A resource and its subresources, one entry each.
fn old_entries(info: &ResourceInfo) -> Vec<Value> {
    let mut own = json!({
        "name": info.plural, "singularName": info.singular, "namespaced": info.namespaced, "kind": info.kind,
        "verbs": info.verbs,
    });
    add_names(&mut own, info);
    let sub = |sub: &SubresourceInfo| {
        let mut entry = json!({
            "name": format!("{}/{}", info.plural, sub.name), "singularName": "", "namespaced": info.namespaced,
            "kind": sub.kind, "verbs": sub.verbs,
        });
        if (&sub.group, &sub.version) != (&info.group, &info.version) {
            entry["group"] = sub.group.as_str().into();
            entry["version"] = sub.version.as_str().into();
        }
        entry
    };
    std::iter::once(own).chain(info.subresources.iter().map(sub)).collect()
}

fn aggregated_entry(info: &ResourceInfo) -> Value {
    // The real server names group and version only where they are not those around: custom resources always do.
    let kind = |group: &str, version: &str, kind: &str| {
        let is_implied = info.is_built_in() && (group, version) == (&*info.group, &*info.version);
        let (group, version) = if is_implied { ("", "") } else { (group, version) };
        json!({"group": group, "version": version, "kind": kind})
    };
    let mut entry = json!({
        "resource": info.plural, "responseKind": kind(&info.group, &info.version, &info.kind),
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular, "verbs": info.verbs,
    });
    add_names(&mut entry, info);
    let sub = |sub: &SubresourceInfo| {
        let kind = kind(&sub.group, &sub.version, &sub.kind);
        json!({"subresource": sub.name, "responseKind": kind, "verbs": sub.verbs})
    };
    let subresources: Vec<Value> = info.subresources.iter().map(sub).collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

fn add_names(entry: &mut Value, info: &ResourceInfo) {
    for (key, names) in [("shortNames", &info.short_names), ("categories", &info.categories)] {
        if !names.is_empty() {
            entry[key] = json!(names);
        }
    }
}

/// The groups that are served, without the core one.
fn groups<'a>(infos: &[&'a ResourceInfo]) -> Vec<&'a str> {
    let served: BTreeSet<&str> = infos.iter().map(|info| &*info.group).filter(|group| !group.is_empty()).collect();
    let known = GROUPS.into_iter().filter_map(|group| served.get(group).copied());
    known.chain(served.iter().copied().filter(|group| !GROUPS.contains(group))).collect()
}

/// The versions of a group, the preferred one first.
pub fn versions<'a>(infos: &[&'a ResourceInfo], group: &str) -> Vec<&'a str> {
    let served: BTreeSet<&str> = infos.iter().filter(|info| info.group == group).map(|info| &*info.version).collect();
    let mut versions: Vec<&str> = served.into_iter().collect();
    versions.sort_by_key(|version| Reverse(priority(version)));
    versions
}

fn resources<'a>(infos: &[&'a ResourceInfo], group: &str, version: &str) -> Vec<&'a ResourceInfo> {
    let served = infos.iter().copied().filter(|info| info.group == group && info.version == version);
    let mut found: Vec<&ResourceInfo> = served.collect();
    found.sort_by_key(|info| &info.plural);
    found
}

/// Orders versions: `v2` over `v1` over `v2beta1` over `v1alpha1` over what is no such name, that by reverse name.
pub fn priority(version: &str) -> (u8, u64, u64, Reverse<&str>) {
    let numbers = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u64 = rest[..digits].parse().ok()?;
        let minor = |text: &str| text.parse::<u64>().ok();
        match &rest[digits..] {
            "" => Some((3, major, 0)),
            stage => match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
                (Some(text), _) => Some((2, major, minor(text)?)),
                (_, Some(text)) => Some((1, major, minor(text)?)),
                _ => None,
            },
        }
    };
    match numbers() {
        Some((stage, major, minor)) => (stage, major, minor, Reverse("")),
        None => (0, 0, 0, Reverse(version)),
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(group: &str, version: &str, kind: &str, plural: &str) -> ResourceInfo {
        ResourceInfo {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            short_names: vec![],
            categories: vec![],
            namespaced: true,
            verbs: vec!["create", "delete", "get"],
            subresources: vec![],
        }
    }

    fn served() -> Vec<ResourceInfo> {
        let mut pods = info("", "v1", "Pod", "pods");
        pods.short_names = vec!["po".into()];
        pods.categories = vec!["all".into()];
        pods.subresources = vec![
            SubresourceInfo {
                name: "eviction".into(),
                group: "policy".into(),
                version: "v1".into(),
                kind: "Eviction".into(),
                verbs: vec!["create"],
            },
            SubresourceInfo {
                name: "log".into(),
                group: String::new(),
                version: "v1".into(),
                kind: "Pod".into(),
                verbs: vec!["get"],
            },
        ];
        let mut nodes = info("", "v1", "Node", "nodes");
        nodes.namespaced = false;
        vec![
            pods,
            nodes,
            info("example.com", "v1beta1", "Thing", "things"),
            info("example.com", "v1", "Thing", "things"),
            info("batch", "v1", "Job", "jobs"),
            info("apps", "v1", "Deployment", "deployments"),
        ]
    }

    #[test]
    fn groups_come_in_the_order_of_the_real_server_and_prefer_the_newest_stable_version() {
        let served = served();
        let infos: Vec<_> = served.iter().collect();
        let list = group_list(&infos);
        let names: Vec<_> = list["groups"].as_array().into_iter().flatten().map(|group| &group["name"]).collect();
        assert_eq!(names, ["apps", "batch", "example.com"]);
        let expected = json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "example.com",
            "versions": [
                {"groupVersion": "example.com/v1", "version": "v1"},
                {"groupVersion": "example.com/v1beta1", "version": "v1beta1"},
            ],
            "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"},
        });
        assert_eq!(group(&infos, "example.com"), Some(expected));
        assert_eq!((group(&infos, ""), group(&infos, "nope")), (None, None));
    }

    #[test]
    fn the_core_resources_are_listed_with_their_subresources() {
        let served = served();
        let infos: Vec<_> = served.iter().collect();
        let expected = json!({
            "kind": "APIResourceList", "groupVersion": "v1",
            "resources": [
                {"name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node",
                    "verbs": ["create", "delete", "get"]},
                {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
                    "verbs": ["create", "delete", "get"], "shortNames": ["po"], "categories": ["all"]},
                {"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
                    "kind": "Eviction", "verbs": ["create"]},
                {"name": "pods/log", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"]},
            ],
        });
        assert_eq!(resource_list(&infos, "", "v1"), Some(expected));
        assert_eq!(resource_list(&infos, "apps", "v1").map(|list| list["apiVersion"].clone()), Some(json!("v1")));
        assert_eq!(resource_list(&infos, "apps", "v2"), None);
    }

    #[test]
    fn the_aggregated_documents_name_response_kinds_as_the_real_ones_do() {
        let served = served();
        let infos: Vec<_> = served.iter().collect();
        let pods = &aggregated_core(&infos)["items"][0]["versions"][0]["resources"][1];
        let expected = json!({
            "resource": "pods", "responseKind": {"group": "", "version": "", "kind": "Pod"}, "scope": "Namespaced",
            "singularResource": "pod", "verbs": ["create", "delete", "get"],
            "shortNames": ["po"], "categories": ["all"],
            "subresources": [
                {"subresource": "eviction", "verbs": ["create"],
                    "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}},
                {"subresource": "log", "responseKind": {"group": "", "version": "", "kind": "Pod"}, "verbs": ["get"]},
            ],
        });
        assert_eq!(*pods, expected);
        let list = aggregated_groups(&infos);
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("APIGroupDiscoveryList"), &json!(AGGREGATED_VERSION)));
        let custom = &list["items"][2]["versions"][1];
        assert_eq!((&custom["version"], &custom["freshness"]), (&json!("v1beta1"), &json!("Current")));
        let kind = json!({"group": "example.com", "version": "v1beta1", "kind": "Thing"});
        assert_eq!(custom["resources"][0]["responseKind"], kind);
    }

    #[test]
    fn versions_are_ordered_by_stability_then_age() {
        let mut names =
            vec!["foo1", "v1alpha1", "v10", "v2beta1", "v1beta2", "v1", "v11alpha2", "foo10", "v2", "v1beta"];
        names.sort_by_key(|name| Reverse(priority(name)));
        assert_eq!(
            names,
            ["v10", "v2", "v1", "v2beta1", "v1beta2", "v11alpha2", "v1alpha1", "foo1", "foo10", "v1beta"]
        );
    }
}
