//! Addresses that the server hands out: cluster IPs and node ports of services.
//!
//! There is no table of them: what is in use is what the stored services say. A write of a service holds a lock from
//! choosing to storing ([`Call::choosing_addresses`]), so that no two get the same.

use std::{collections::BTreeSet, net::Ipv4Addr, ops::RangeInclusive};

use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

use super::Call;
use crate::{
    error::{ApiError, FieldError},
    kinds::service,
    store::Range,
};

/// The first addresses are for the cluster's own services: the API, names.
const RESERVED: u32 = 16;
const NODE_PORTS: RangeInclusive<i64> = 30000..=32767;

/// The addresses that services get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceNetwork {
    first: u32,
    size: u32,
}

impl ServiceNetwork {
    /// The network of a first address and a number of leading bits, at most 30 and at least 8 of them.
    pub fn new(first: Ipv4Addr, bits: u8) -> Self {
        Self { first: u32::from(first), size: 1 << (32 - bits.clamp(8, 30)) }
    }

    /// The address of the API server's own service.
    pub fn api(self) -> Ipv4Addr {
        Ipv4Addr::from(self.first + 1)
    }

    fn to_give(self) -> impl Iterator<Item = Ipv4Addr> {
        (RESERVED.min(self.size / 2)..self.size - 1).map(move |number| Ipv4Addr::from(self.first + number))
    }

    fn contains(self, address: Ipv4Addr) -> bool {
        (1..self.size - 1).contains(&u32::from(address).wrapping_sub(self.first))
    }
}

/// 10.96.0.0/16, the usual one of a new cluster.
impl Default for ServiceNetwork {
    fn default() -> Self {
        Self::new(Ipv4Addr::new(10, 96, 0, 0), 16)
    }
}

/// What other services use already.
struct InUse {
    addresses: BTreeSet<String>,
    ports: BTreeSet<i64>,
}

impl Call {
    /// Keeps other writes of services out while this one chooses and stores its addresses; none for other kinds.
    pub async fn choosing_addresses(&self) -> Option<OwnedMutexGuard<()>> {
        if self.resource.is_core("Service") { Some(self.api.addresses().clone().lock_owned().await) } else { None }
    }

    /// Gives a service the addresses that it needs and does not have.
    ///
    /// # Errors
    /// If it asks for one that is taken or outside the range, or none is left.
    pub fn give_addresses(&self, value: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        if !self.resource.is_core("Service") || self.target.subresource == "status" {
            return Ok(());
        }
        let mut in_use = self.in_use();
        self.give_address(value, old, &in_use)?;
        self.check_ports(value, old, &in_use)?;
        in_use.ports.extend(node_ports(value));
        let mut choose = || {
            let free = NODE_PORTS.into_iter().find(|port| !in_use.ports.contains(port)).unwrap_or_default();
            in_use.ports.insert(free);
            free
        };
        service::fill_node_ports(value, &mut choose);
        if service::needs_health_check_port(value) {
            value["spec"]["healthCheckNodePort"] = choose().into();
        }
        Ok(())
    }

    fn give_address(&self, value: &mut Value, old: Option<&Value>, in_use: &InUse) -> Result<(), ApiError> {
        if service::needs_cluster_ip(value) {
            let mut all = self.api.service_network().to_give().map(|address| address.to_string());
            let free = all.find(|address| !in_use.addresses.contains(address));
            let free = free.ok_or_else(|| ApiError::internal("failed to allocate a serviceIP: range is full"))?;
            service::set_cluster_ip(value, &free);
            return Ok(());
        }
        let wanted = value["spec"]["clusterIP"].as_str().unwrap_or_default();
        let had = old.map_or("", |old| old["spec"]["clusterIP"].as_str().unwrap_or_default());
        // What is no address at all is for validation to say.
        let Ok(address) = wanted.parse::<Ipv4Addr>() else { return Ok(()) };
        if wanted == had {
            return Ok(());
        }
        let why = if !self.api.service_network().contains(address) {
            "the provided network does not match the current range"
        } else if in_use.addresses.contains(wanted) {
            "provided IP is already allocated"
        } else {
            return Ok(());
        };
        let detail = format!("failed to allocate IP {wanted}: {why}");
        self.refuse(value, &[FieldError::invalid("spec.clusterIPs", json!([wanted]), detail)])
    }

    fn check_ports(&self, value: &Value, old: Option<&Value>, in_use: &InUse) -> Result<(), ApiError> {
        let had: BTreeSet<i64> = old.map(node_ports).unwrap_or_default();
        let ports = value["spec"]["ports"].as_array().into_iter().flatten().enumerate();
        let errors: Vec<FieldError> = ports
            .filter_map(|(index, port)| {
                let number = port["nodePort"].as_i64().filter(|number| *number != 0 && !had.contains(number))?;
                let why = if !NODE_PORTS.contains(&number) {
                    "provided port is not in the valid range. The range of valid ports is 30000-32767"
                } else if in_use.ports.contains(&number) {
                    "provided port is already allocated"
                } else {
                    return None;
                };
                Some(FieldError::invalid(format!("spec.ports[{index}].nodePort"), number.into(), why))
            })
            .collect();
        self.refuse(value, &errors)
    }

    fn in_use(&self) -> InUse {
        let page = self.api.store().list("services", &Range::default());
        let objects = page.map(|page| page.objects).unwrap_or_default();
        let own = self.key().place;
        let others: Vec<Value> =
            objects.iter().filter(|object| object.place != own).map(|object| object.value()).collect();
        let address = |service: &Value| service["spec"]["clusterIP"].as_str().map(str::to_owned);
        InUse {
            addresses: others.iter().filter_map(address).collect(),
            ports: others.iter().flat_map(node_ports).collect(),
        }
    }
}

fn node_ports(service: &Value) -> BTreeSet<i64> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let numbers = ports.map(|port| &port["nodePort"]).chain([&service["spec"]["healthCheckNodePort"]]);
    numbers.filter_map(Value::as_i64).filter(|port| *port != 0).collect()
}
