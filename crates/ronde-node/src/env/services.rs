//! Variables that tell a container where services are (`DB_SERVICE_HOST`, `DB_PORT_5432_TCP`, …).

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};

/// Returns the variables of all services that a pod is told of: the API server always, those of its namespace if it
/// wants service links.
pub(super) fn variables<'a>(pod: &Pod, services: impl IntoIterator<Item = &'a Service>) -> BTreeMap<String, String> {
    let wants_links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
    let mut told: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services.into_iter().filter(|service| address(service).is_some()) {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let namespace = service.metadata.namespace.as_deref();
        if wants_links && namespace == pod.metadata.namespace.as_deref() {
            told.insert(name, service);
        } else if (name, namespace) == ("kubernetes", Some("default")) {
            told.entry(name).or_insert(service);
        }
    }
    let mut variables = BTreeMap::new();
    for service in told.into_values() {
        add(&mut variables, service);
    }
    variables
}

fn address(service: &Service) -> Option<&str> {
    let address = service.spec.as_ref()?.cluster_ip.as_deref()?;
    (!matches!(address, "" | "None")).then_some(address)
}

fn add(variables: &mut BTreeMap<String, String>, service: &Service) {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let (Some(address), [first, ..]) = (address(service), ports) else { return };
    let name = variable_name(service.metadata.name.as_deref().unwrap_or_default());
    let mut set = |suffix: String, value: String| variables.insert(format!("{name}_{suffix}"), value);
    set("SERVICE_HOST".to_owned(), address.to_owned());
    set("SERVICE_PORT".to_owned(), first.port.to_string());
    set("PORT".to_owned(), url(address, first));
    for port in ports {
        if let Some(port_name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            set(format!("SERVICE_PORT_{}", variable_name(port_name)), port.port.to_string());
        }
        let prefix = format!("PORT_{}_{}", port.port, protocol(port));
        set(format!("{prefix}_PROTO"), protocol(port).to_lowercase());
        set(format!("{prefix}_PORT"), port.port.to_string());
        set(format!("{prefix}_ADDR"), address.to_owned());
        set(prefix, url(address, port));
    }
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP")
}

fn url(address: &str, port: &ServicePort) -> String {
    let protocol = protocol(port).to_lowercase();
    match address.parse() {
        Ok(IpAddr::V6(address)) => format!("{protocol}://[{address}]:{}", port.port),
        _ => format!("{protocol}://{address}:{}", port.port),
    }
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}
