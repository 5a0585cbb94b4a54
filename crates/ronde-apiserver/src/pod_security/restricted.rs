//! The controls of `restricted`, beyond those of `baseline`: how pods are hardened.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Check, Pod, Violation,
    baseline::{added_beyond, is_unconfined},
    joined, plural, text, texts,
};

/// In the order in which a real server tells them.
pub const CHECKS: [Check; 6] = [escalation, capabilities, volumes, not_root, user, seccomp];

const VOLUMES: [&str; 8] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];

fn escalation(pod: &Pod<'_>) -> Option<Violation> {
    let who = pod.containers_with(|context| context["allowPrivilegeEscalation"] != false)?;
    let detail = format!("{who} must set securityContext.allowPrivilegeEscalation=false");
    Some(Violation { reason: "allowPrivilegeEscalation != false", detail })
}

fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let keeps = pod.containers_with(|context| !texts(&context["capabilities"]["drop"]).any(|name| name == "ALL"));
    let keeps = keeps.map(|who| format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    let told: Vec<String> = keeps.into_iter().chain(added_beyond(pod, &["NET_BIND_SERVICE"])).collect();
    (!told.is_empty()).then(|| Violation { reason: "unrestricted capabilities", detail: told.join("; ") })
}

fn volumes(pod: &Pod<'_>) -> Option<Violation> {
    let is_free = |volume: &&Value| VOLUMES.iter().all(|kind| volume[*kind].is_null());
    let bad: Vec<&Value> = pod.spec["volumes"].as_array().into_iter().flatten().filter(is_free).collect();
    let names: Vec<&str> = bad.iter().map(|volume| text(&volume["name"])).collect();
    let fields = bad.iter().filter_map(|volume| volume.as_object()).flatten();
    let kinds: BTreeSet<&str> =
        fields.filter(|(field, value)| *field != "name" && !value.is_null()).map(|(field, _)| field.as_str()).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    if names.is_empty() {
        return None;
    }
    let (who, verb) = (plural("volume", names.len()), if names.len() == 1 { "uses" } else { "use" });
    let what = plural("restricted volume type", kinds.len());
    let detail = format!("{who} {} {verb} {what} {}", joined(&names), joined(&kinds));
    Some(Violation { reason: "restricted volume types", detail })
}

fn not_root(pod: &Pod<'_>) -> Option<Violation> {
    let reason = "runAsNonRoot != true";
    if let Some(who) = pod.setters(|context| context["runAsNonRoot"] == false) {
        return Some(Violation { reason, detail: format!("{who} must not set securityContext.runAsNonRoot=false") });
    }
    if pod.context()["runAsNonRoot"] == true {
        return None;
    }
    let who = pod.containers_with(|context| context["runAsNonRoot"].is_null())?;
    Some(Violation { reason, detail: format!("pod or {who} must set securityContext.runAsNonRoot=true") })
}

fn user(pod: &Pod<'_>) -> Option<Violation> {
    let who = pod.setters(|context| context["runAsUser"] == 0)?;
    Some(Violation { reason: "runAsUser=0", detail: format!("{who} must not set runAsUser=0") })
}

fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    let reason = "seccompProfile";
    if let Some(who) = pod.setters(is_unconfined) {
        let detail = format!("{who} must not set securityContext.seccompProfile.type to \"Unconfined\"");
        return Some(Violation { reason, detail });
    }
    if !pod.context()["seccompProfile"].is_null() {
        return None;
    }
    let who = pod.containers_with(|context| context["seccompProfile"].is_null())?;
    let detail =
        format!("pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"");
    Some(Violation { reason, detail })
}
