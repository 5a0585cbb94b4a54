//! The records of the cluster, built anew from every view of it. Pure, and knows nothing of messages.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Pod;

use crate::net::{
    subnets::Subnets,
    view::{ClusterView, Exposed, Reachable},
};

/// The version of the specification that the records follow.
const SCHEMA: &str = "1.1.0";
/// Names of addresses end so.
const REVERSE: &str = "in-addr.arpa";

/// What a name stands for. Names have no final dot and are in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Data {
    Address(Ipv4Addr),
    Alias(String),
    Service { port: u16, target: String },
    Name(String),
    Text(String),
}

/// What is known of a name.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// It is there, if only because longer names are; `apex` is the zone that it is in.
    Data { data: &'a BTreeSet<Data>, apex: &'a str },
    /// It should be here, and is not.
    Nothing { apex: &'a str },
    /// It is none of ours.
    Elsewhere,
}

/// All names that the name server answers for by itself.
#[derive(Debug)]
pub struct Zone {
    /// The names below which we know everything: the cluster's domain, and the reverse names of both subnets.
    apexes: Vec<String>,
    names: BTreeMap<String, BTreeSet<Data>>,
}

impl Zone {
    /// Builds the records of a cluster.
    pub fn build(view: &ClusterView, domain: &str, subnets: &Subnets) -> Self {
        let reverse = [subnets.pods, subnets.services].into_iter().flat_map(reverse_apexes);
        let apexes: Vec<String> = [domain.to_owned()].into_iter().chain(reverse).collect();
        let names = apexes.iter().map(|apex| (apex.clone(), BTreeSet::new())).collect();
        let mut zone = Self { apexes, names };
        zone.add(format!("dns-version.{domain}"), Data::Text(SCHEMA.to_owned()));
        view.each_exposed(|service| zone.add_service(service, domain));
        for pod in &view.pods {
            zone.add_pod(pod, domain);
        }
        zone
    }

    /// Looks a name up.
    pub fn find(&self, name: &str) -> Found<'_> {
        let Some(apex) = self.apex(name) else { return Found::Elsewhere };
        match self.names.get(name) {
            Some(data) => Found::Data { data, apex },
            None => Found::Nothing { apex },
        }
    }

    fn add_service(&mut self, service: &Exposed<'_>, domain: &str) {
        let base = format!("{}.{}.svc.{domain}", service.name, service.namespace);
        if let Some(elsewhere) = service.external_name() {
            self.add(base, Data::Alias(canonical(elsewhere)));
            return;
        }
        if let Some(address) = service.cluster_ip() {
            self.add_address(&base, address);
            for port in service.spec.ports.iter().flatten() {
                let name = port.name.as_deref();
                self.add_port(&base, (name, port.protocol.as_deref(), Some(port.port)), &base);
            }
        }
        if service.spec.publish_not_ready_addresses == Some(true) {
            service.all().for_each(|reachable| self.add_endpoint(service, reachable, &base));
        } else {
            service.ready().for_each(|reachable| self.add_endpoint(service, reachable, &base));
        }
    }

    /// An endpoint of a headless service is found by the service's name; one with a host name, of any, by that.
    fn add_endpoint(&mut self, service: &Exposed<'_>, reachable: Reachable<'_>, base: &str) {
        let hostname = reachable.endpoint.hostname.as_deref().filter(|name| !name.is_empty()).map(canonical);
        let dashed = || service.is_headless().then(|| dashed(reachable.address));
        let Some(host) = hostname.or_else(dashed) else { return };
        let host = format!("{host}.{base}");
        self.add_address(&host, reachable.address);
        if service.is_headless() {
            self.add(base.to_owned(), Data::Address(reachable.address));
            for port in reachable.ports {
                self.add_port(base, (port.name.as_deref(), port.protocol.as_deref(), port.port), &host);
            }
        }
    }

    fn add_pod(&mut self, pod: &Pod, domain: &str) {
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()?.parse().ok());
        let (Some(address), Some(namespace)) = (address, &pod.metadata.namespace) else { return };
        let name = format!("{}.{namespace}.pod.{domain}", dashed(address));
        self.add(name.clone(), Data::Address(address));
        // A name given by a service says more.
        let reverse = reverse(address);
        if self.names.get(&reverse).is_none_or(BTreeSet::is_empty) {
            self.add(reverse, Data::Name(name));
        }
    }

    fn add_address(&mut self, name: &str, address: Ipv4Addr) {
        self.add(name.to_owned(), Data::Address(address));
        self.add(reverse(address), Data::Name(name.to_owned()));
    }

    fn add_port(&mut self, base: &str, port: (Option<&str>, Option<&str>, Option<i32>), target: &str) {
        let (name, protocol, number) = port;
        let Some(name) = name.filter(|name| !name.is_empty()) else { return };
        let Some(port) = number.and_then(|number| u16::try_from(number).ok()) else { return };
        let protocol = protocol.unwrap_or("TCP");
        let owner = canonical(&format!("_{name}._{protocol}.{base}"));
        self.add(owner, Data::Service { port, target: target.to_owned() });
    }

    /// Adds a record, and the shorter names above it: they exist, too. What is outside our zones is left out.
    fn add(&mut self, name: String, data: Data) {
        let Some(apex) = self.apex(&name).map(str::len) else { return };
        let mut above = name.as_str();
        while let Some((_, parent)) = above.split_once('.').filter(|(_, parent)| parent.len() > apex) {
            self.names.entry(parent.to_owned()).or_default();
            above = parent;
        }
        self.names.entry(name).or_default().insert(data);
    }

    fn apex(&self, name: &str) -> Option<&str> {
        let is_below = |apex: &&String| {
            name.strip_suffix(apex.as_str()).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        self.apexes.iter().find(is_below).map(String::as_str)
    }
}

/// Returns a name as records have it.
pub fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Returns an address as the first part of a name.
fn dashed(address: Ipv4Addr) -> String {
    address.to_string().replace('.', "-")
}

/// Returns the name that tells an address's names.
pub fn reverse(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("{d}.{c}.{b}.{a}.{REVERSE}")
}

/// Returns the names below which are the addresses of a subnet; more than one if it does not end at a dot.
fn reverse_apexes(subnet: Ipv4Net) -> Vec<String> {
    let octets = subnet.prefix_len().div_ceil(8).clamp(1, 4);
    let parts = subnet.subnets(octets * 8).into_iter().flatten();
    let skipped = usize::from(4 - octets);
    parts
        .map(|part| {
            let octets = part.network().octets();
            let reversed = octets.iter().rev().skip(skipped).map(u8::to_string);
            reversed.chain([REVERSE.to_owned()]).collect::<Vec<_>>().join(".")
        })
        .collect()
}
