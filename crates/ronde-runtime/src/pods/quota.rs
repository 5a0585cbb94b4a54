//! What a ResourceQuota would count for pods: requests, limits and the pods themselves, by its own names. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec},
    apimachinery::pkg::api::resource::Quantity as Text,
};
use ronde_text::quantity::Quantity;

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// Returns amounts as objects carry them.
pub fn texts(amounts: Amounts) -> BTreeMap<String, Text> {
    amounts.into_iter().map(|(name, amount)| (name, Text(amount.to_string()))).collect()
}

/// Returns what so many pods of the same kind need.
pub fn times(amounts: &Amounts, number: i32) -> Amounts {
    let mut total = Amounts::new();
    add(&mut total, amounts, number);
    total
}

/// Adds so many times some amounts.
pub fn add(total: &mut Amounts, more: &Amounts, times: i32) {
    for (name, amount) in more {
        let sum = total.entry(name.clone()).or_insert(Quantity::ZERO);
        let many = Quantity::from_nano(amount.nano().saturating_mul(times.into()), amount.style());
        *sum = sum.plus(many);
    }
    total.retain(|_, amount| !amount.is_zero());
}

/// Returns what a quota would count for a pod.
pub fn usage(spec: &PodSpec) -> Amounts {
    let mut usage =
        Amounts::from([("pods".to_owned(), Quantity::whole(1)), ("count/pods".to_owned(), Quantity::whole(1))]);
    for (name, amount) in total(spec, Side::Requests) {
        usage.insert(format!("requests.{name}"), amount);
        usage.insert(name, amount);
    }
    for (name, amount) in total(spec, Side::Limits) {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
    usage
}

/// Returns what a quota would count for a pod that is there.
pub fn usage_of(pod: &Pod) -> Amounts {
    usage(&pod.spec.clone().unwrap_or_default())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Requests,
    Limits,
}

/// Returns what a pod asks for at its most demanding moment.
fn total(spec: &PodSpec, side: Side) -> Amounts {
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &of_container(container, side), 1);
    }
    // Sidecars run beside everything that is started after them.
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut moment = of_container(container, side);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &moment, 1);
            moment.clone_from(&sidecars);
        } else {
            add(&mut moment, &sidecars, 1);
        }
        raise(&mut starting, moment);
    }
    add(&mut running, &sidecars, 1);
    raise(&mut running, starting);
    let overhead = spec.overhead.iter().flatten().filter_map(|(name, text)| amount(name, text));
    add(&mut running, &overhead.collect(), 1);
    running
}

fn of_container(container: &Container, side: Side) -> Amounts {
    let resources = container.resources.clone().unwrap_or_default();
    let limits = resources.limits.unwrap_or_default();
    let given = match side {
        // What is only limited is requested as well.
        Side::Requests => limits.into_iter().chain(resources.requests.unwrap_or_default()).collect(),
        Side::Limits => limits,
    };
    given.iter().filter_map(|(name, text)| amount(name, text)).collect()
}

fn amount(name: &str, text: &Text) -> Option<(String, Quantity)> {
    Quantity::parse(&text.0).ok().map(|amount| (name.to_owned(), amount))
}

fn raise(amounts: &mut Amounts, others: Amounts) {
    for (name, other) in others {
        let amount = amounts.entry(name).or_insert(other);
        *amount = (*amount).max(other);
    }
}
