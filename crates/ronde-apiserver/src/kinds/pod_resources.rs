//! What a pod asks for as a whole: the sums over its containers, the defaults that follow from them, its quality of
//! service.
//!
//! Called by the defaults and the strategy of pods. Whether the amounts make sense is checked in [`super::resources`].

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    read::{entries, is_empty, items, object, text},
    resources::{is_hugepages, is_overcommit_allowed},
};
use crate::quantity::Quantity;

type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// Requests what is limited, where nothing is requested.
pub fn default_requests(requirements: &mut Map<String, Value>) {
    let Some(limits) = requirements.get("limits").and_then(Value::as_object).cloned() else { return };
    if let Some(requests) = object(requirements, "requests") {
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}

/// Completes the resources of the pod as a whole, if it has some: from its containers, then from its limits.
pub fn default_pod_requests(spec: &mut Map<String, Value>) {
    let Some(requirements) = spec.get("resources").filter(|value| !value.is_null()) else { return };
    let (limits, requests) = (&requirements["limits"], &requirements["requests"]);
    if is_empty(limits) && is_empty(requests) {
        return;
    }
    let mut new_limits = limits.as_object().cloned().unwrap_or_default();
    for (name, amount) in total(spec, "limits") {
        if is_hugepages(name) && requests.get(name).is_none() {
            new_limits.entry(name).or_insert_with(|| amount.to_string().into());
        }
    }
    let mut new_requests = requests.as_object().cloned().unwrap_or_default();
    if !is_empty(limits) {
        for (name, amount) in total(spec, "requests") {
            if is_pod_level(name) && is_overcommit_allowed(name) {
                new_requests.entry(name).or_insert_with(|| amount.to_string().into());
            }
        }
        for (name, amount) in new_limits.iter().filter(|(name, _)| is_pod_level(name)) {
            new_requests.entry(name).or_insert_with(|| amount.clone());
        }
    }
    if let Some(requirements) = object(spec, "resources") {
        for (list, amounts) in [("limits", new_limits), ("requests", new_requests)] {
            if !amounts.is_empty() {
                requirements.insert(list.to_owned(), Value::Object(amounts));
            }
        }
    }
}

/// Tells whether a resource may be given for a pod as a whole.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_hugepages(name)
}

/// Returns what the containers of a pod need together at most: init containers run before the others, sidecars beside.
pub fn total<'a>(spec: &'a Map<String, Value>, list: &str) -> Amounts<'a> {
    let null = &Value::Null;
    let mut sum = Amounts::new();
    for container in items(spec.get("containers").unwrap_or(null)) {
        add(&mut sum, amounts(&container["resources"][list]));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in items(spec.get("initContainers").unwrap_or(null)) {
        let mut needs: Amounts<'_> = amounts(&container["resources"][list]).collect();
        if text(&container["restartPolicy"]) == "Always" {
            add(&mut sum, needs.iter().map(|(name, amount)| (*name, *amount)));
            add(&mut sidecars, needs.into_iter());
            needs = sidecars.clone();
        } else {
            add(&mut needs, sidecars.iter().map(|(name, amount)| (*name, *amount)));
        }
        raise(&mut peak, needs);
    }
    raise(&mut sum, peak);
    sum
}

fn amounts(list: &Value) -> impl Iterator<Item = (&str, Quantity)> {
    entries(list).filter_map(|(name, amount)| Some((name, Quantity::parse(text(amount)).ok()?)))
}

fn add<'a>(sum: &mut Amounts<'a>, amounts: impl Iterator<Item = (&'a str, Quantity)>) {
    for (name, amount) in amounts {
        let before = sum.get(name).copied().unwrap_or(Quantity::ZERO);
        sum.insert(name, before.plus(amount));
    }
}

fn raise<'a>(peak: &mut Amounts<'a>, amounts: Amounts<'a>) {
    for (name, amount) in amounts {
        if peak.get(name).is_none_or(|before| *before < amount) {
            peak.insert(name, amount);
        }
    }
}

/// Returns the quality of service that a pod gets: `Guaranteed`, `Burstable` or `BestEffort`.
pub fn qos_class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let requirements: Vec<&Value> = if spec["resources"].is_null() {
        items(&spec["containers"]).iter().chain(items(&spec["initContainers"])).map(|c| &c["resources"]).collect()
    } else {
        vec![&spec["resources"]]
    };
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut is_guaranteed = true;
    for requirement in requirements {
        add(&mut requests, computed(&requirement["requests"]));
        let limited: Amounts<'_> = computed(&requirement["limits"]).collect();
        is_guaranteed &= limited.len() == 2;
        add(&mut limits, limited.into_iter());
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if is_guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The amounts that the quality of service follows from.
fn computed(list: &Value) -> impl Iterator<Item = (&str, Quantity)> {
    amounts(list).filter(|(name, amount)| matches!(*name, "cpu" | "memory") && *amount > Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{default_pod_requests, qos_class};

    fn check_qos(name: &str, spec: &Value, expected: &str) {
        assert_eq!(qos_class(&json!({"spec": spec})), expected, "{name}");
    }

    #[test]
    fn the_qos_class_follows_from_requests_and_limits() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let full = json!({"requests": both, "limits": both});
        check_qos("nothing", &json!({"containers": [{"resources": {}}]}), "BestEffort");
        check_qos("all of both", &json!({"containers": [{"resources": full}]}), "Guaranteed");
        check_qos(
            "one container without",
            &json!({"containers": [{"resources": full}, {"resources": {}}]}),
            "Burstable",
        );
        check_qos(
            "an init container without",
            &json!({"containers": [{"resources": full}], "initContainers": [{"resources": {}}]}),
            "Burstable",
        );
        check_qos(
            "only cpu",
            &json!({"containers": [{"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}]}),
            "Burstable",
        );
        check_qos("zero is nothing", &json!({"containers": [{"resources": {"requests": {"cpu": "0"}}}]}), "BestEffort");
        check_qos(
            "other resources do not count",
            &json!({"containers": [{"resources": {"limits": {"a/b": "1"}}}]}),
            "BestEffort",
        );
        check_qos(
            "the same amount in other words",
            &json!({"containers": [{"resources": {"requests": {"cpu": "1000m", "memory": "1Gi"}, "limits": both}}]}),
            "Guaranteed",
        );
        check_qos(
            "the pod's own resources win",
            &json!({"containers": [{"resources": full}], "resources": {"limits": {"cpu": "1"}}}),
            "Burstable",
        );
    }

    #[test]
    fn resources_of_the_pod_are_completed_from_its_containers_then_from_its_limits() {
        let mut spec = json!({
            "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "500m"}}}],
            "initContainers": [
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                {"resources": {"requests": {"cpu": "3"}}},
            ],
            "resources": {"limits": {"cpu": "8", "memory": "1Gi"}},
        });
        default_pod_requests(spec.as_object_mut().expect("an object"));
        assert_eq!(spec["resources"]["requests"], json!({"cpu": "4", "memory": "1Gi"}));
    }
}
