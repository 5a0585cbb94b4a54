//! What pods ask for, as amounts: of one container, and of a pod at its most demanding moment. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::api::resource::Quantity as Text,
};
use ronde_text::{
    amounts::{Amounts, CPU},
    quantity::Quantity,
};

/// Returns amounts from texts; what is no quantity is left out, and so is nothing of a resource.
pub fn amounts(texts: Option<&BTreeMap<String, Text>>) -> Amounts {
    let texts = texts.into_iter().flatten();
    let known = texts.filter_map(|(name, text)| Some((name.as_str(), amount(name, text)?)));
    Amounts::of(known.filter(|(_, amount)| *amount != 0))
}

/// Returns limits from texts: here nothing of a resource is something to say.
pub fn limits(texts: Option<&BTreeMap<String, Text>>) -> Amounts {
    let texts = texts.into_iter().flatten();
    Amounts::of(texts.filter_map(|(name, text)| Some((name.as_str(), amount(name, text)?))))
}

/// Returns what pods will request from texts that name it as quotas do, such as `requests.cpu`.
pub fn quota_requests(texts: &BTreeMap<String, Text>) -> Amounts {
    let mut sum = Amounts::default();
    for (name, text) in texts {
        let name = name.strip_prefix("requests.").unwrap_or(name);
        let is_requested = !name.starts_with("limits.") && !name.starts_with("count/");
        if let Some(amount) = amount(name, text).filter(|amount| is_requested && *amount > 0) {
            sum.set(name, amount.max(sum.get(name).unwrap_or_default()));
        }
    }
    sum
}

/// Returns what a pod asks for at its most demanding moment.
pub fn requests(spec: &PodSpec) -> Amounts {
    let mut running = Amounts::default();
    for container in &spec.containers {
        add(&mut running, &container_requests(container));
    }
    // Sidecars run beside everything that is started after them.
    let (mut sidecars, mut starting) = (Amounts::default(), Amounts::default());
    for container in spec.init_containers.iter().flatten() {
        let mut moment = container_requests(container);
        if is_sidecar(container) {
            add(&mut sidecars, &moment);
            moment.clone_from(&sidecars);
        } else {
            add(&mut moment, &sidecars);
        }
        raise(&mut starting, &moment);
    }
    add(&mut running, &sidecars);
    raise(&mut running, &starting);
    let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    amounts(whole).iter().for_each(|(name, amount)| running.set(name, amount));
    add(&mut running, &amounts(spec.overhead.as_ref()));
    running
}

/// Tells whether a container that is started first goes on beside the others.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn amount(name: &str, text: &Text) -> Option<i64> {
    let quantity = Quantity::parse(&text.0).ok()?;
    let amount = if name == CPU { quantity.milli() } else { quantity.value() };
    Some(i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX }))
}

fn container_requests(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more.iter() {
        sum.set(name, sum.get(name).unwrap_or_default().saturating_add(amount));
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other.iter() {
        most.set(name, most.get(name).unwrap_or_default().max(amount));
    }
}
