//! Requests and limits that containers may see (`resourceFieldRef`).

use k8s_openapi::{
    api::core::v1::{Container, ResourceFieldSelector},
    apimachinery::pkg::api::resource,
};
use ronde_text::quantity::{Quantity, QuantityError};

use super::PodFacts;

/// Resources whose limit is what the node has, if the container has none.
const DEFAULTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Why an amount cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    #[error("unsupported container resource : {0}")]
    Unsupported(String),
    #[error("container {0} not found")]
    NoContainer(String),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
}

/// Returns an amount in units of the divisor, rounded up. The container is the one named, else the given one.
///
/// # Errors
/// If there is no such container or resource.
pub fn resource_value(
    facts: &PodFacts<'_>,
    selector: &ResourceFieldSelector,
    own: Option<&Container>,
) -> Result<String, ResourceError> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let container = match own.filter(|_| name.is_empty()) {
        Some(own) => own,
        None => find(facts, name).ok_or_else(|| ResourceError::NoContainer(name.to_owned()))?,
    };
    let unsupported = || ResourceError::Unsupported(selector.resource.clone());
    let (list, resource) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let is_known = DEFAULTED.contains(&resource) || resource.starts_with("hugepages-");
    if !is_known || !matches!(list, "limits" | "requests") {
        return Err(unsupported());
    }
    let amount = amount(facts, container, list, resource)?;
    let divisor = parse(selector.divisor.as_ref())?;
    let divisor = if divisor.is_zero() { Quantity::whole(1) } else { divisor };
    let (amount, divisor) =
        if resource == "cpu" { (amount.milli(), divisor.milli()) } else { (amount.value(), divisor.value()) };
    Ok(round_up(amount, divisor).to_string())
}

fn find<'a>(facts: &PodFacts<'a>, name: &str) -> Option<&'a Container> {
    let spec = facts.pod.spec.as_ref()?;
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|container| container.name == name)
}

fn amount(facts: &PodFacts<'_>, container: &Container, list: &str, resource: &str) -> Result<Quantity, QuantityError> {
    let resources = container.resources.as_ref();
    if list == "requests" {
        return parse(resources.and_then(|resources| resources.requests.as_ref()?.get(resource)));
    }
    let limit = parse(resources.and_then(|resources| resources.limits.as_ref()?.get(resource)))?;
    if !limit.is_zero() || !DEFAULTED.contains(&resource) {
        return Ok(limit);
    }
    let pod = facts.pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let pod_limit = parse(pod.and_then(|pod| pod.limits.as_ref()?.get(resource)))?;
    if pod_limit.is_zero() { parse(facts.allocatable.get(resource)) } else { Ok(pod_limit) }
}

fn parse(quantity: Option<&resource::Quantity>) -> Result<Quantity, QuantityError> {
    quantity.map_or(Ok(Quantity::ZERO), |quantity| Quantity::parse(&quantity.0))
}

fn round_up(amount: i128, divisor: i128) -> i128 {
    if divisor == 0 {
        return amount;
    }
    let rest = amount % divisor;
    amount / divisor + i128::from(rest != 0 && (rest > 0) == (divisor > 0))
}
