//! What the network is told of the cluster: its services, their endpoints, its pods. Pure.
//!
//! The caller watches the API and hands over the newest state as a whole; the name server and the proxies read it
//! through [`Exposed`], a service together with its endpoints.

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

use k8s_openapi::api::{
    core::v1::{Pod, Service, ServiceSpec},
    discovery::v1::{Endpoint, EndpointPort, EndpointSlice},
};

const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The state of the cluster at one moment.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    pub services: Vec<Arc<Service>>,
    pub slices: Vec<Arc<EndpointSlice>>,
    pub pods: Vec<Arc<Pod>>,
}

/// A service and where it leads.
pub struct Exposed<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub spec: &'a ServiceSpec,
    slices: &'a [&'a EndpointSlice],
}

/// One endpoint of a service.
#[derive(Clone, Copy)]
pub struct Reachable<'a> {
    pub address: Ipv4Addr,
    pub endpoint: &'a Endpoint,
    pub ports: &'a [EndpointPort],
}

impl ClusterView {
    /// Calls `visit` with every service.
    pub fn each_exposed(&self, mut visit: impl FnMut(&Exposed<'_>)) {
        let mut slices: BTreeMap<(&str, &str), Vec<&EndpointSlice>> = BTreeMap::new();
        for slice in self.slices.iter().filter(|slice| slice.address_type == "IPv4") {
            let labels = slice.metadata.labels.as_ref();
            let service = labels.and_then(|labels| labels.get(SERVICE_NAME)).map(String::as_str);
            if let (Some(namespace), Some(service)) = (slice.metadata.namespace.as_deref(), service) {
                slices.entry((namespace, service)).or_default().push(slice);
            }
        }
        for service in &self.services {
            let place = (service.metadata.namespace.as_deref(), service.metadata.name.as_deref());
            let ((Some(namespace), Some(name)), Some(spec)) = (place, &service.spec) else { continue };
            let slices = slices.get(&(namespace, name)).map_or(&[][..], Vec::as_slice);
            visit(&Exposed { namespace, name, spec, slices });
        }
    }
}

impl<'a> Exposed<'a> {
    /// Returns the address that the service is reached by, whichever of its endpoints answers.
    pub fn cluster_ip(&self) -> Option<Ipv4Addr> {
        self.spec.cluster_ip.as_deref()?.parse().ok()
    }

    pub fn is_headless(&self) -> bool {
        self.spec.cluster_ip.as_deref() == Some("None")
    }

    /// Returns the name elsewhere that the service stands for.
    pub fn external_name(&self) -> Option<&'a str> {
        let name = self.spec.external_name.as_deref()?;
        (self.spec.type_.as_deref() == Some("ExternalName")).then_some(name)
    }

    /// Lists the endpoints that a client may be sent to.
    pub fn ready(&self) -> impl Iterator<Item = Reachable<'a>> {
        self.all().filter(|reachable| condition(reachable, |conditions| conditions.ready, true))
    }

    /// Lists the endpoints that stop but still serve: better than nothing when none is ready.
    pub fn closing(&self) -> impl Iterator<Item = Reachable<'a>> {
        self.all().filter(|reachable| {
            condition(reachable, |conditions| conditions.terminating, false)
                && condition(reachable, |conditions| conditions.serving, true)
        })
    }

    /// Lists all endpoints, ready or not.
    pub fn all(&self) -> impl Iterator<Item = Reachable<'a>> {
        let slices = self.slices;
        slices.iter().flat_map(|slice| {
            let ports = slice.ports.as_deref().unwrap_or_default();
            // All addresses of an endpoint are the same pod; one of them is enough.
            slice.endpoints.iter().filter_map(move |endpoint| {
                let address = endpoint.addresses.first()?.parse().ok()?;
                Some(Reachable { address, endpoint, ports })
            })
        })
    }
}

/// Reads a condition; one that is not said has its usual value.
fn condition(
    reachable: &Reachable<'_>,
    read: impl Fn(&k8s_openapi::api::discovery::v1::EndpointConditions) -> Option<bool>,
    usual: bool,
) -> bool {
    reachable.endpoint.conditions.as_ref().and_then(read).unwrap_or(usual)
}
