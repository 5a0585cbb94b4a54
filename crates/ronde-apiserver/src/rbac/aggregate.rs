//! Roles that are made of others: `aggregationRule` selects cluster roles by label, and their rules are its rules.
//!
//! A loop writes the rules down, as the controller of a real cluster does, so that everybody sees what a role allows.

use serde_json::Value;

use super::{Kind, PolicyRule, rules_of};
use crate::{
    api::Api,
    error::ApiError,
    selector::LabelSelector,
    store::Range,
    verbs::{Call, meta, update::Next},
};

/// Keeps the rules of aggregated roles up to date until the server stops.
pub async fn run(api: Api) {
    let mut changed = api.store().changes(&Kind::ClusterRole.collection().into());
    loop {
        changed.mark_unchanged();
        let roles = stored(&api);
        for role in roles.iter().filter(|role| !role["aggregationRule"].is_null()) {
            let rules = aggregate(role, &roles);
            if rules == rules_of(role) {
                continue;
            }
            if let Err(error) = write(&api, role, &rules).await {
                tracing::warn!(role = meta::text(role, "name"), %error, "cannot aggregate a cluster role, retrying");
            }
        }
        tokio::select! {
            () = api.stopping().cancelled() => return,
            change = changed.changed() => if change.is_err() { return },
        }
    }
}

/// Returns the rules of the roles that a role selects, each once.
pub fn aggregate(role: &Value, roles: &[Value]) -> Vec<PolicyRule> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten();
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors.filter_map(|selector| LabelSelector::from_value(selector).ok()) {
        let is_selected = |other: &&Value| {
            let labels = &other["metadata"]["labels"];
            meta::text(other, "name") != meta::text(role, "name") && selector.matches_by(|key| labels[key].as_str())
        };
        for rule in roles.iter().filter(is_selected).flat_map(rules_of) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    rules
}

fn stored(api: &Api) -> Vec<Value> {
    let page = api.store().list(Kind::ClusterRole.collection(), &Range::default());
    page.map(|page| page.objects.iter().map(|object| object.value()).collect()).unwrap_or_default()
}

async fn write(api: &Api, role: &Value, rules: &[PolicyRule]) -> Result<(), ApiError> {
    let place = ("", meta::text(role, "name"));
    let mut call = Call::internal(api, "rbac.authorization.k8s.io/v1", "ClusterRole", place, "")?;
    call.options.field_manager = "clusterrole-aggregation-controller".into();
    let rules = serde_json::to_value(rules).map_err(ApiError::internal)?;
    let change = |old: &Value| {
        let mut value = old.clone();
        value["rules"] = rules.clone();
        Ok(Next::of_loop(value))
    };
    match call.change(change).await {
        Err(error) if error.reason == "NotFound" => Ok(()),
        other => other.map(drop),
    }
}
