//! Rows of the small kinds: namespace, config map, secret, service account, quota, priority class, lease.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    column::{AGE, Column, NAME, column, integer_column, text_column},
    field::{age, cells, count, entries, flag, int, list, name, quantity, text},
};

pub(super) static NAMESPACE: [Column; 3] =
    [NAME, text_column("Status", "Active, or Terminating while it is being emptied."), AGE];

pub(super) fn namespace(namespace: &Value, now: Timestamp) -> Vec<Value> {
    cells![name(namespace), text(&namespace["status"]["phase"]), age(namespace, now)]
}

pub(super) static CONFIG_MAP: [Column; 3] = [NAME, text_column("Data", "The number of entries."), AGE];

pub(super) fn config_map(map: &Value, now: Timestamp) -> Vec<Value> {
    cells![name(map), count(&map["data"]) + count(&map["binaryData"]), age(map, now)]
}

pub(super) static SECRET: [Column; 4] =
    [NAME, text_column("Type", "What the secret is for."), text_column("Data", "The number of entries."), AGE];

pub(super) fn secret(secret: &Value, now: Timestamp) -> Vec<Value> {
    cells![name(secret), text(&secret["type"]), count(&secret["data"]), age(secret, now)]
}

pub(super) static SERVICE_ACCOUNT: [Column; 3] = [NAME, text_column("Secrets", "The number of its secrets."), AGE];

pub(super) fn service_account(account: &Value, now: Timestamp) -> Vec<Value> {
    cells![name(account), list(&account["secrets"]).len(), age(account, now)]
}

pub(super) static RESOURCE_QUOTA: [Column; 4] = [
    NAME,
    text_column("Request", "What is requested, of what may be."),
    text_column("Limit", "The limits in use, of what they may add up to."),
    AGE,
];

pub(super) fn resource_quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let status = &quota["status"];
    let mut resources: Vec<&str> = entries(&status["hard"]).map(|(resource, _)| resource).collect();
    resources.sort_unstable();
    let (limits, requests): (Vec<_>, Vec<_>) = resources.into_iter().partition(|r| r.starts_with("limits."));
    let cell = |resources: Vec<&str>| {
        let used_of_hard = |resource: &&str| {
            format!("{resource}: {}/{}", quantity(&status["used"][*resource]), quantity(&status["hard"][*resource]))
        };
        resources.iter().map(used_of_hard).collect::<Vec<_>>().join(", ")
    };
    cells![name(quota), cell(requests), cell(limits), age(quota, now)]
}

pub(super) static PRIORITY_CLASS: [Column; 5] = [
    NAME,
    integer_column("Value", "The priority of pods of this class."),
    column("Global-Default", "boolean", 0, "Whether pods without a class get this one."),
    AGE,
    text_column("PreemptionPolicy", "Whether pods of this class may push out others."),
];

pub(super) fn priority_class(class: &Value, now: Timestamp) -> Vec<Value> {
    cells![
        name(class),
        int(&class["value"]),
        flag(&class["globalDefault"]),
        age(class, now),
        text(&class["preemptionPolicy"]),
    ]
}

pub(super) static LEASE: [Column; 3] = [NAME, text_column("Holder", "Who holds the lease."), AGE];

pub(super) fn lease(lease: &Value, now: Timestamp) -> Vec<Value> {
    cells![name(lease), text(&lease["spec"]["holderIdentity"]), age(lease, now)]
}
