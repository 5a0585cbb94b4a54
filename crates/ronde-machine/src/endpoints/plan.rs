//! What the Endpoints and EndpointSlices of a service should be. Pure.
//!
//! Slices change as little as possible: an endpoint stays in the slice in which it is, new ones fill what has room.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use k8s_openapi::{
    api::{
        core::v1::{
            EndpointAddress, EndpointPort as CorePort, EndpointSubset, Endpoints, ObjectReference, Pod, Service,
            ServicePort,
        },
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use kube::ResourceExt as _;

use ronde_runtime::pods::{controller_ref, is_deleted, is_finished, is_ready};

pub const ENDPOINTS_MANAGER: &str = "endpoint-controller";
pub const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const MIRROR: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// As many endpoints as Kubernetes puts into one slice.
const SLICE_MAX: usize = 100;

/// Endpoints by the ports that they offer.
type Groups = Vec<(Vec<EndpointPort>, Vec<Endpoint>)>;
/// The labels of an object.
type Labels = BTreeMap<String, String>;

/// What is to be done about the slices of a service.
#[derive(Debug, Default, PartialEq)]
pub struct Slices {
    pub create: Vec<EndpointSlice>,
    pub update: Vec<EndpointSlice>,
    pub delete: Vec<Arc<EndpointSlice>>,
}

/// The slices that a service should have, before they are cut to size.
#[derive(Debug, PartialEq)]
pub struct Wanted {
    manager: &'static str,
    /// By address type; endpoints with the same ports share slices.
    groups: BTreeMap<&'static str, Groups>,
}

/// Tells whether a service picks pods with these labels.
pub fn selects(service: &Service, labels: &Labels) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    has_own_pods(service)
        && selector.is_some_and(|selector| selector.iter().all(|(key, value)| labels.get(key) == Some(value)))
}

/// Tells whether a slice was made by this controller.
pub fn is_own(slice: &EndpointSlice) -> bool {
    slice.labels().get(MANAGED_BY).is_some_and(|manager| manager == MANAGER || manager == MIRROR)
}

fn has_own_pods(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let is_external = spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    let has_selector = spec.and_then(|spec| spec.selector.as_ref()).is_some_and(|selector| !selector.is_empty());
    has_selector && !is_external
}

fn is_headless(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
    matches!(address, "" | "None")
}

fn publishes_unready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

fn ports(service: &Service) -> &[ServicePort] {
    service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default()
}

/// Returns the Endpoints to write, if they differ from those that exist.
pub fn endpoints(service: &Service, pods: &[Arc<Pod>], existing: Option<&Endpoints>) -> Option<Endpoints> {
    if !has_own_pods(service) {
        return None;
    }
    let mut labels = service.labels().clone();
    labels.insert(ENDPOINTS_MANAGED_BY.to_owned(), ENDPOINTS_MANAGER.to_owned());
    labels.remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    let subsets = Some(subsets(service, pods)).filter(|subsets| !subsets.is_empty());
    if existing.is_some_and(|existing| existing.subsets == subsets && *existing.labels() == labels) {
        return None;
    }
    let new = || ObjectMeta {
        name: service.metadata.name.clone(),
        namespace: service.metadata.namespace.clone(),
        ..ObjectMeta::default()
    };
    let metadata = existing.map_or_else(new, |existing| existing.metadata.clone());
    Some(Endpoints { metadata: ObjectMeta { labels: Some(labels), ..metadata }, subsets })
}

/// Pods that offer the same ports are one subset.
fn subsets(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let mut groups: Vec<EndpointSubset> = Vec::new();
    for pod in pods {
        let Some(address) = core_address(service, pod) else { continue };
        let ports = pod_ports(service, pod);
        if ports.is_empty() && !self::ports(service).is_empty() {
            continue;
        }
        let ports = Some(ports.iter().map(core_port).collect::<Vec<_>>()).filter(|ports| !ports.is_empty());
        let index = groups.iter().position(|group| group.ports == ports).unwrap_or_else(|| {
            groups.push(EndpointSubset { ports, ..EndpointSubset::default() });
            groups.len() - 1
        });
        let is_ready = publishes_unready(service) || is_ready(pod);
        let group = &mut groups[index];
        let list = if is_ready { &mut group.addresses } else { &mut group.not_ready_addresses };
        list.get_or_insert_default().push(address);
    }
    for group in &mut groups {
        for list in [&mut group.addresses, &mut group.not_ready_addresses].into_iter().flatten() {
            list.sort_by(|a, b| a.ip.cmp(&b.ip));
        }
    }
    groups
}

fn core_address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    if is_finished(pod) || (is_deleted(pod) && !publishes_unready(service)) {
        return None;
    }
    let family = address_types(service).first().copied()?;
    Some(EndpointAddress {
        ip: addresses(pod, family).into_iter().next()?,
        hostname: hostname(service, pod),
        node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        target_ref: Some(target(pod)),
    })
}

fn core_port(port: &EndpointPort) -> CorePort {
    CorePort {
        name: port.name.clone().filter(|name| !name.is_empty()),
        port: port.port.unwrap_or_default(),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    }
}

/// Returns what the slices of a service should say; `zone` tells where a node is.
pub fn wanted(
    service: &Service,
    pods: &[Arc<Pod>],
    endpoints: Option<&Endpoints>,
    zone: &dyn Fn(&str) -> Option<String>,
) -> Option<Wanted> {
    if !has_own_pods(service) {
        return endpoints.and_then(|endpoints| mirrored(service, endpoints));
    }
    let mut groups = BTreeMap::new();
    for family in address_types(service) {
        let mut group = Groups::new();
        for pod in pods.iter().filter(|pod| !is_finished(pod)) {
            if let Some(endpoint) = endpoint(service, pod, family, zone) {
                add(&mut group, pod_ports(service, pod), endpoint);
            }
        }
        groups.insert(family, group);
    }
    Some(Wanted { manager: MANAGER, groups })
}

fn add(group: &mut Groups, ports: Vec<EndpointPort>, endpoint: Endpoint) {
    match group.iter_mut().find(|(same, _)| *same == ports) {
        Some((_, endpoints)) => endpoints.push(endpoint),
        None => group.push((ports, vec![endpoint])),
    }
}

/// Endpoints that a user wrote for a service without a selector, as slices.
fn mirrored(service: &Service, endpoints: &Endpoints) -> Option<Wanted> {
    let has_selector = service.spec.as_ref().is_some_and(|spec| spec.selector.is_some());
    let is_skipped = endpoints.labels().get(SKIP_MIRROR).is_some_and(|value| value == "true");
    if has_selector || is_skipped || endpoints.labels().contains_key(ENDPOINTS_MANAGED_BY) {
        return None;
    }
    let mut groups: BTreeMap<_, Groups> = BTreeMap::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports: Vec<EndpointPort> = subset.ports.iter().flatten().map(slice_port).collect();
        let both = [(&subset.addresses, true), (&subset.not_ready_addresses, false)];
        for (address, ready) in
            both.into_iter().flat_map(|(list, ready)| list.iter().flatten().map(move |a| (a, ready)))
        {
            let Some(family) = family_of(&address.ip) else { continue };
            let endpoint = Endpoint {
                addresses: vec![address.ip.clone()],
                conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
                hostname: address.hostname.clone(),
                node_name: address.node_name.clone(),
                target_ref: address.target_ref.clone(),
                ..Endpoint::default()
            };
            add(groups.entry(family).or_default(), ports.clone(), endpoint);
        }
    }
    Some(Wanted { manager: MIRROR, groups })
}

fn slice_port(port: &CorePort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    }
}

fn address_types(service: &Service) -> Vec<&'static str> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.as_deref()).unwrap_or_default();
    let known = families.iter().filter_map(|family| match family.as_str() {
        "IPv4" => Some("IPv4"),
        "IPv6" => Some("IPv6"),
        _ => None,
    });
    let known: Vec<_> = known.collect();
    if known.is_empty() { vec!["IPv4"] } else { known }
}

fn family_of(address: &str) -> Option<&'static str> {
    let address: IpAddr = address.parse().ok()?;
    Some(if address.is_ipv4() { "IPv4" } else { "IPv6" })
}

fn addresses(pod: &Pod, family: &str) -> Vec<String> {
    let Some(status) = &pod.status else { return Vec::new() };
    let all = status.pod_ips.iter().flatten().map(|address| &address.ip);
    let all: Vec<&String> = all.collect();
    let all = if all.is_empty() { status.pod_ip.iter().collect() } else { all };
    all.into_iter().filter(|address| family_of(address) == Some(family)).cloned().collect()
}

fn endpoint(service: &Service, pod: &Pod, family: &str, zone: &dyn Fn(&str) -> Option<String>) -> Option<Endpoint> {
    let addresses = addresses(pod, family);
    let (serving, terminating) = (is_ready(pod), is_deleted(pod));
    let ready = publishes_unready(service) || (serving && !terminating);
    let node_name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    (!addresses.is_empty()).then(|| Endpoint {
        addresses,
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        target_ref: Some(target(pod)),
        zone: node_name.as_deref().and_then(zone),
        node_name,
        hostname: hostname(service, pod),
        ..Endpoint::default()
    })
}

fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// A pod with a hostname that names the service as its subdomain is found in DNS by that name.
fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_its_domain = spec.subdomain.as_deref() == service.metadata.name.as_deref();
    spec.hostname.clone().filter(|hostname| !hostname.is_empty() && is_its_domain)
}

fn pod_ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = ports(service).iter().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(find_port(pod, port)?),
            protocol: Some(protocol(port.protocol.as_ref())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    ports.collect()
}

fn protocol(protocol: Option<&String>) -> String {
    protocol.cloned().unwrap_or_else(|| "TCP".to_owned())
}

/// Returns the number of a service's port in a pod; a name is looked for in containers and sidecars.
fn find_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        Some(IntOrString::Int(number)) if *number > 0 => return Some(*number),
        Some(IntOrString::String(name)) => name,
        _ => return Some(port.port),
    };
    let spec = pod.spec.as_ref()?;
    let is_sidecar = |restart: Option<&str>| restart == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(|c| is_sidecar(c.restart_policy.as_deref()));
    let offered = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let mut same = offered.filter(|offer| {
        offer.name.as_ref() == Some(name) && protocol(offer.protocol.as_ref()) == protocol(port.protocol.as_ref())
    });
    same.next().map(|offer| offer.container_port)
}

/// Returns how the existing slices become the wanted ones.
pub fn slices(service: &Service, wanted: Option<Wanted>, existing: &[Arc<EndpointSlice>]) -> Slices {
    let Some(wanted) = wanted else {
        return Slices { delete: existing.to_vec(), ..Slices::default() };
    };
    let labels = slice_labels(service, wanted.manager);
    let of_family = |slice: &&Arc<EndpointSlice>, family| slice.address_type == family;
    let is_wanted = |slice: &&Arc<EndpointSlice>| wanted.groups.contains_key(slice.address_type.as_str());
    let mut plan = Slices::default();
    plan.delete.extend(existing.iter().filter(|slice| !is_wanted(slice)).cloned());
    for (family, mut groups) in wanted.groups {
        if groups.is_empty() {
            // A service without endpoints is known by one empty slice.
            groups.push((Vec::new(), Vec::new()));
        }
        let mut left: Vec<_> = existing.iter().filter(|slice| of_family(slice, family)).cloned().collect();
        for (ports, endpoints) in groups {
            let same = |slice: &mut Arc<EndpointSlice>| slice.ports.as_deref().unwrap_or_default() == ports;
            let own: Vec<_> = left.extract_if(.., same).collect();
            let new = EndpointSlice {
                metadata: slice_meta(service, labels.clone()),
                address_type: family.to_owned(),
                endpoints: Vec::new(),
                ports: Some(ports).filter(|ports| !ports.is_empty()),
            };
            fill(&mut plan, &new, own, endpoints);
        }
        plan.delete.append(&mut left);
    }
    plan
}

/// Distributes the endpoints of one group over its slices.
fn fill(plan: &mut Slices, new: &EndpointSlice, own: Vec<Arc<EndpointSlice>>, mut endpoints: Vec<Endpoint>) {
    let mut keeps = Vec::new();
    for slice in own {
        let was_in = |endpoint: &mut Endpoint| slice.endpoints.iter().any(|old| is_same(old, endpoint));
        let kept: Vec<Endpoint> = endpoints.extract_if(.., was_in).collect();
        keeps.push((slice, kept));
    }
    let mut more = endpoints.into_iter();
    let has_any = !more.as_slice().is_empty() || keeps.iter().any(|(_, kept)| !kept.is_empty());
    let mut has_placeholder = has_any;
    for (slice, mut kept) in keeps {
        kept.extend(more.by_ref().take(SLICE_MAX.saturating_sub(kept.len())));
        if kept.is_empty() && has_placeholder {
            plan.delete.push(slice);
            continue;
        }
        has_placeholder = true;
        let labels = new.metadata.labels.clone();
        if slice.endpoints != kept || slice.metadata.labels != labels {
            let metadata = ObjectMeta { labels, ..slice.metadata.clone() };
            plan.update.push(EndpointSlice { metadata, endpoints: kept, ..new.clone() });
        }
    }
    while !more.as_slice().is_empty() || !has_placeholder {
        has_placeholder = true;
        plan.create.push(EndpointSlice { endpoints: more.by_ref().take(SLICE_MAX).collect(), ..new.clone() });
    }
}

/// An endpoint is the same while its pod has its addresses.
fn is_same(old: &Endpoint, new: &Endpoint) -> bool {
    let uid = |endpoint: &Endpoint| endpoint.target_ref.as_ref().and_then(|target| target.uid.clone());
    old.addresses == new.addresses && uid(old) == uid(new)
}

fn slice_labels(service: &Service, manager: &str) -> Labels {
    let mut labels = service.labels().clone();
    labels.remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.name_any());
    labels.insert(MANAGED_BY.to_owned(), manager.to_owned());
    labels
}

fn slice_meta(service: &Service, labels: Labels) -> ObjectMeta {
    ObjectMeta {
        generate_name: Some(format!("{}-", service.name_any())),
        namespace: service.namespace(),
        labels: Some(labels),
        owner_references: Some(vec![controller_ref(service)]),
        ..ObjectMeta::default()
    }
}
