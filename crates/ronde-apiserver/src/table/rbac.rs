//! Rows of role bindings. Roles have no columns of their own.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    column::{AGE, Column, NAME, text_column, wide_column},
    field::{age, cells, list, name, text},
};

const ROLE: Column = text_column("Role", "The role that is bound.");

pub(super) static ROLE_BINDING: [Column; 6] = [
    NAME,
    ROLE,
    AGE,
    wide_column("Users", "The users in the role binding."),
    wide_column("Groups", "The groups in the role binding."),
    wide_column("ServiceAccounts", "The service accounts in the role binding."),
];

pub(super) static CLUSTER_ROLE_BINDING: [Column; 6] = [
    NAME,
    ROLE,
    AGE,
    wide_column("Users", "The users in the cluster role binding."),
    wide_column("Groups", "The groups in the cluster role binding."),
    wide_column("ServiceAccounts", "The service accounts in the cluster role binding."),
];

pub(super) fn binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let role = &binding["roleRef"];
    let subjects = |kind: &str, shown: fn(&Value) -> String| {
        let of_kind = list(&binding["subjects"]).iter().filter(|subject| subject["kind"] == kind);
        of_kind.map(shown).collect::<Vec<_>>().join(", ")
    };
    cells![
        name(binding),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])),
        age(binding, now),
        subjects("User", |user| text(&user["name"]).to_owned()),
        subjects("Group", |group| text(&group["name"]).to_owned()),
        subjects("ServiceAccount", |account| format!("{}/{}", text(&account["namespace"]), text(&account["name"]))),
    ]
}
