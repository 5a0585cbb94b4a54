//! What the server warns of in pod specs, in pods and templates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    containers::visit,
    path::Path,
    read::{entries, items, number, text},
    warnings::{claim_spec, fractional},
};
use crate::names::is_valid_label_value;

const OLD_NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];
const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
const OLD_VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Warns of what is odd in a pod spec; `template` is the path of the template that it is in.
pub fn pod_spec(spec: &Value, metadata: &Value, template: Option<&Path<'_>>, out: &mut Vec<String>) {
    let (spec_path, meta_path) = match template {
        Some(template) => (template.child("spec"), template.child("metadata")),
        None => (Path::new("spec"), Path::new("metadata")),
    };
    nodes(spec, &spec_path, out);
    let annotations = meta_path.child("annotations");
    for (key, advice) in OLD_ANNOTATIONS {
        if metadata["annotations"].get(key).is_some() {
            out.push(format!("{}: {advice}", annotations.key(key)));
        }
    }
    volumes(&spec["volumes"], &spec_path.child("volumes"), out);
    duplicates(&spec["hostAliases"], "ip", &spec_path.child("hostAliases"), out);
    duplicates(&spec["imagePullSecrets"], "name", &spec_path.child("imagePullSecrets"), out);
    let secrets = spec_path.child("imagePullSecrets");
    for (index, _) in items(&spec["imagePullSecrets"]).iter().enumerate().filter(|(_, s)| text(&s["name"]).is_empty()) {
        out.push(format!("{}: invalid empty name \"\"", secrets.index(index).child("name")));
    }
    visit(spec, &spec_path, |container, at| {
        amounts(&container["resources"], &at.child("resources"), out);
        hidden_variables(&container["env"], &at.child("env"), out);
    });
    ports(spec, &spec_path, out);
    port_names(spec, &spec_path, out);
    if number(&spec["terminationGracePeriodSeconds"]) < 0 {
        let advice = "must be >= 0; negative values are invalid and will be treated as 1";
        out.push(format!("{}: {advice}", spec_path.child("terminationGracePeriodSeconds")));
    }
    pod_affinity(&spec["affinity"], &spec_path.child("affinity"), out);
}

fn old_label(label: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(old, _)| *old == label).map(|(_, advice)| *advice)
}

fn nodes(spec: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    let selector = path.child("nodeSelector");
    for (key, advice) in entries(&spec["nodeSelector"]).filter_map(|(key, _)| Some((key, old_label(key)?))) {
        out.push(format!("{}: {advice}", selector.key(key)));
    }
    let (affinity, at) = (&spec["affinity"]["nodeAffinity"], path.child("affinity"));
    let node = at.child("nodeAffinity");
    let required = node.child(REQUIRED);
    selector_terms(&affinity[REQUIRED]["nodeSelectorTerms"], &required.child("nodeSelectorTerms"), out);
    let preferred = node.child(PREFERRED);
    for (index, term) in items(&affinity[PREFERRED]).iter().enumerate() {
        selector_term(&term["preference"], true, &preferred.index(index).child("preference"), out);
    }
    let spread = path.child("topologySpreadConstraints");
    for (index, constraint) in items(&spec["topologySpreadConstraints"]).iter().enumerate() {
        let at = spread.index(index);
        let key = text(&constraint["topologyKey"]);
        if let Some(advice) = old_label(key) {
            out.push(format!("{}: {key} is {advice}", at.child("topologyKey")));
        }
        if constraint["labelSelector"].is_null() {
            out.push(format!("{}: {NO_SELECTOR}", at.child("labelSelector")));
        }
    }
}

/// Warns of old labels in terms that select nodes.
pub fn selector_terms(terms: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    for (index, term) in items(terms).iter().enumerate() {
        selector_term(term, false, &path.index(index), out);
    }
}

fn selector_term(term: &Value, checks_values: bool, path: &Path<'_>, out: &mut Vec<String>) {
    let list = path.child("matchExpressions");
    for (index, expression) in items(&term["matchExpressions"]).iter().enumerate() {
        let at = list.index(index);
        let key = text(&expression["key"]);
        if let Some(advice) = old_label(key) {
            out.push(format!("{}: {key} is {advice}", at.child("key")));
        }
        let values = at.child("values");
        for (index, value) in items(&expression["values"]).iter().map(text).enumerate().filter(|_| checks_values) {
            for message in is_valid_label_value(value) {
                out.push(format!("{}: {value} is invalid, {message}", values.index(index)));
            }
        }
    }
}

fn volumes(list: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    for (index, volume) in items(list).iter().enumerate() {
        let at = path.index(index);
        for (field, shown, advice) in OLD_VOLUMES {
            if !volume[field].is_null() {
                out.push(format!("{}: {advice}", at.child(shown)));
            }
        }
        let template = &volume["ephemeral"]["volumeClaimTemplate"];
        let ephemeral = at.child("ephemeral");
        claim_spec(&template["spec"], &ephemeral.child("volumeClaimTemplate").child("spec"), out);
    }
}

fn duplicates(list: &Value, field: &str, path: &Path<'_>, out: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, value) in items(list).iter().map(|item| text(&item[field])).enumerate() {
        if !seen.insert(value) {
            out.push(format!("{}: duplicate {field} \"{value}\"", path.index(index).child(field)));
        }
    }
}

fn amounts(resources: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            fractional(&resources[list][name], &path.child(list).key(name), out);
        }
    }
}

/// A variable may be set again when its new value is made from the old one.
fn hidden_variables(list: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, variable) in items(list).iter().enumerate() {
        let (name, value) = (text(&variable["name"]), text(&variable["value"]));
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let builds_on = variable["valueFrom"].is_null() && value != reference && value.contains(&reference);
        if !builds_on {
            let what = format!("hides previous definition of \"{name}\", which may be dropped when using apply");
            out.push(format!("{}: {what}", path.index(index)));
        }
    }
}

fn ports(spec: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    let mut seen: BTreeMap<(i64, String), Vec<(String, Value)>> = BTreeMap::new();
    visit(spec, path, |container, at| {
        let list = at.child("ports");
        for (index, port) in items(&container["ports"]).iter().enumerate() {
            let here = list.index(index).to_string();
            let key = (number(&port["containerPort"]), text(&port["protocol"]).to_owned());
            let others = seen.entry(key).or_default();
            for (there, other) in others.iter() {
                if let Some(what) = port_conflict(port, other) {
                    out.push(format!("{here}: {what} port definition with {there}"));
                }
            }
            others.push((here, port.clone()));
        }
    });
}

fn port_conflict(port: &Value, other: &Value) -> Option<&'static str> {
    let (here, there) = (number(&port["hostPort"]), number(&other["hostPort"]));
    let (ip, other_ip) = (text(&port["hostIP"]), text(&other["hostIP"]));
    if ip == other_ip && here == there {
        Some("duplicate")
    } else if here == 0 || there == 0 {
        Some("overlapping")
    } else if here == there && (ip.is_empty() != other_ip.is_empty()) {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

fn port_names(spec: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    visit(spec, path, |container, at| {
        let list = at.child("ports");
        for (index, port) in items(&container["ports"]).iter().enumerate() {
            let (name, here) = (text(&port["name"]), list.index(index).to_string());
            if name.is_empty() {
                continue;
            }
            if let Some(there) = seen.get(name) {
                let advice = format!("services and probes that select ports by name will use {there}");
                out.push(format!("{here}: duplicate port name \"{name}\" with {there}, {advice}"));
            } else {
                seen.insert(name.to_owned(), here);
            }
        }
    });
}

fn pod_affinity(affinity: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = path.child(kind);
        let required = at.child(REQUIRED);
        for (index, _) in without_selector(&affinity[kind][REQUIRED], |term| term) {
            out.push(format!("{}: {NO_SELECTOR}", required.index(index).child("labelSelector")));
        }
        let preferred = at.child(PREFERRED);
        for (index, _) in without_selector(&affinity[kind][PREFERRED], |term| &term["podAffinityTerm"]) {
            let entry = preferred.index(index);
            out.push(format!("{}: {NO_SELECTOR}", entry.child("podAffinityTerm").child("labelSelector")));
        }
    }
}

fn without_selector(terms: &Value, term: fn(&Value) -> &Value) -> impl Iterator<Item = (usize, &Value)> {
    items(terms).iter().enumerate().filter(move |(_, entry)| term(entry)["labelSelector"].is_null())
}
