//! What the server warns of and takes nevertheless: fields that do nothing, hide each other or are on their way out.
//!
//! Called after validation, for the `Warning` headers of the answer. Addresses in unusual forms and files of volumes
//! that overlap are not warned of.

use serde_json::Value;

use super::{
    path::Path,
    pod_warnings::{pod_spec, selector_terms},
    read::{items, number, text},
    service::is_headless,
};
use crate::{names::is_dns1123_label, quantity::Quantity};

const POD_NAMES: &str = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label \
     is recommended";
const POD_HOST: &str = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
     recommended";
const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// `-----BEGIN` at the start of a text, in base64.
const PEM_BEGIN: &str = "LS0tLS1CRUdJTi";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// Returns the warnings about a new object, or about a change of one.
pub fn warnings(group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    let is_new = old.is_none();
    let is_changed = old.is_none_or(|old| old["metadata"]["generation"] != new["metadata"]["generation"]);
    match (group, kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => out.extend(super::crd::warnings(new, old)),
        ("", "Pod") if is_new => {
            name(new, POD_HOST, &mut out);
            pod_spec(&new["spec"], &new["metadata"], None, &mut out);
        }
        ("apps", "Deployment" | "ReplicaSet") | ("batch", "Job") if is_changed => {
            if is_new {
                name(new, POD_NAMES, &mut out);
            }
            template(new, &mut out);
        }
        ("apps", "StatefulSet") => stateful_set(new, is_changed, &mut out),
        ("", "Service") => service(new, &mut out),
        ("", "PersistentVolumeClaim") => {
            if new["metadata"]["annotations"].get(CLASS).is_some() {
                let advice = "deprecated since v1.8; use \"storageClassName\" attribute instead";
                out.push(format!("metadata.annotations[{CLASS}]: {advice}"));
            }
            claim_spec(&new["spec"], &Path::new("spec"), &mut out);
        }
        ("", "PersistentVolume") => volume(&new["spec"], &mut out),
        ("", "Secret") => tls(new, &mut out),
        ("", "ServiceAccount") => {
            let is_set = |account: &Value| account["metadata"]["annotations"].get(MOUNTABLE_SECRETS).is_some();
            if is_set(new) && !old.is_some_and(is_set) {
                let advice = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
                out.push(format!("metadata.annotations[{MOUNTABLE_SECRETS}]: {advice}"));
            }
        }
        ("networking.k8s.io", "Ingress") if is_new => {
            let annotation = "kubernetes.io/ingress.class";
            let is_set = new["metadata"]["annotations"].get(annotation).is_some();
            if is_set && new["spec"]["ingressClassName"].is_null() {
                out.push(format!(
                    "annotation \"{annotation}\" is deprecated, please use 'spec.ingressClassName' instead"
                ));
            }
        }
        _ => {}
    }
    out
}

fn name(object: &Value, what: &str, out: &mut Vec<String>) {
    let messages = is_dns1123_label(text(&object["metadata"]["name"]));
    if !messages.is_empty() {
        out.push(format!("metadata.name: {what}: [{}]", messages.join(" ")));
    }
}

fn template(object: &Value, out: &mut Vec<String>) {
    let template = &object["spec"]["template"];
    pod_spec(&template["spec"], &template["metadata"], Some(&Path::new("spec.template")), out);
}

fn stateful_set(set: &Value, is_changed: bool, out: &mut Vec<String>) {
    if is_changed {
        template(set, out);
    }
    let path = Path::new("spec.volumeClaimTemplates");
    for (index, claim) in items(&set["spec"]["volumeClaimTemplates"]).iter().enumerate() {
        claim_spec(&claim["spec"], &path.index(index), out);
    }
    if number(&set["spec"]["revisionHistoryLimit"]) < 0 {
        let advice = "a negative value retains all historical revisions; a value >= 0 is recommended";
        out.push(format!("spec.revisionHistoryLimit: {advice}"));
    }
}

/// Warns of parts of bytes.
pub fn fractional(amount: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    if Quantity::parse(text(amount)).is_ok_and(|quantity| quantity.milli() % 1000 != 0) {
        out.push(format!("{path}: fractional byte value {amount} is invalid, must be an integer"));
    }
}

/// Warns of a claim that asks for parts of bytes.
pub fn claim_spec(spec: &Value, path: &Path<'_>, out: &mut Vec<String>) {
    let resources = path.child("resources");
    for list in ["requests", "limits"] {
        fractional(&spec["resources"][list]["storage"], &resources.child(list).key("storage"), out);
    }
}

fn service(service: &Value, out: &mut Vec<String>) {
    let spec = &service["spec"];
    if service["metadata"]["annotations"].get(TOPOLOGY_HINTS).is_some() {
        out.push(format!(
            "annotation {TOPOLOGY_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let has_external_ips = !items(&spec["externalIPs"]).is_empty();
    if is_headless(service) && text(&spec["type"]) == "ClusterIP" {
        if !text(&spec["loadBalancerIP"]).is_empty() {
            out.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if has_external_ips {
            out.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if text(&spec["sessionAffinity"]) != "None" {
            out.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    let is_named = text(&spec["type"]) == "ExternalName";
    if is_named && has_external_ips {
        out.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !is_named && !text(&spec["externalName"]).is_empty() {
        out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
}

fn volume(spec: &Value, out: &mut Vec<String>) {
    let path = Path::new("spec");
    if text(&spec["persistentVolumeReclaimPolicy"]) == "Recycle" {
        let advice = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
             provisioning.";
        out.push(format!("{}: {advice}", path.child("persistentVolumeReclaimPolicy")));
    }
    let terms = Path::new("spec.nodeAffinity.required.nodeSelectorTerms");
    selector_terms(&spec["nodeAffinity"]["required"]["nodeSelectorTerms"], &terms, out);
    let gone = [
        ("cephfs", "cephfs", "v1.28", "v1.31"),
        ("photonPersistentDisk", "photonPersistentDisk", "v1.11", "v1.16"),
        ("scaleIO", "scaleIO", "v1.16", "v1.22"),
        ("storageos", "storageOS", "v1.22", "v1.25"),
        ("glusterfs", "glusterfs", "v1.25", "v1.26"),
        ("rbd", "rbd", "v1.28", "v1.31"),
    ];
    for (field, shown, since, until) in gone {
        if !spec[field].is_null() {
            out.push(format!("{}: deprecated in {since}, non-functional in {until}+", path.child(shown)));
        }
    }
}

/// Warns of a pair of keys that is none; whether the two belong together is not checked.
fn tls(secret: &Value, out: &mut Vec<String>) {
    if text(&secret["type"]) != "kubernetes.io/tls" {
        return;
    }
    let is_pem = |key: &str| text(&secret["data"][key]).starts_with(PEM_BEGIN);
    if !is_pem("tls.crt") {
        out.push("tls: failed to find any PEM data in certificate input".to_owned());
    } else if !is_pem("tls.key") {
        out.push("tls: failed to find any PEM data in key input".to_owned());
    }
}
