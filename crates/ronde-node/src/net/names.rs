//! Names and hardware addresses of links, computed from what they stand for.
//!
//! Nothing about a link needs to be remembered: a pod's link is found by the pod's uid, and its address by the link.

use std::net::Ipv4Addr;

/// What all our bridges begin with.
pub const BRIDGE_PREFIX: &str = "ronde-";
/// The pod's side of its link.
pub const POD_LINK: &str = "eth0";

/// A hardware address.
pub type Mac = [u8; 6];

/// Returns the name of an instance's bridge: 14 of the 15 characters that a link's name may have.
pub fn bridge(instance: &str) -> String {
    format!("{BRIDGE_PREFIX}{:08x}", hash(instance) >> 32)
}

/// Returns the name of the firewall table of an instance.
pub fn table(instance: &str) -> String {
    table_of(&bridge(instance))
}

/// Returns the name of the firewall table that goes with a bridge.
pub fn table_of(bridge: &str) -> String {
    bridge.replace('-', "_")
}

/// Returns the name of the link to an instance's services.
pub fn service_port(instance: &str) -> String {
    format!("rs{:08x}", hash(instance) >> 32)
}

/// Returns the name of the machine's side of a pod's link: 15 characters, of which 52 bits tell pods apart.
pub fn pod_port(pod_uid: &str) -> String {
    format!("rp{:013x}", hash(pod_uid) >> 12)
}

/// Returns the hardware address of a pod's side: the address itself, so that no neighbour's memory of it is ever wrong.
pub fn inner_mac(address: Ipv4Addr) -> Mac {
    mac(0x58, address)
}

/// Returns the hardware address of the machine's side of a link.
pub fn outer_mac(address: Ipv4Addr) -> Mac {
    mac(0x59, address)
}

/// Returns the address of a pod from the machine's side of its link; none if the link is not one of ours.
pub fn address_of(outer: &[u8]) -> Option<Ipv4Addr> {
    match outer {
        [0x0A, 0x59, a, b, c, d] => Some(Ipv4Addr::new(*a, *b, *c, *d)),
        _ => None,
    }
}

/// 0x0A marks an address of one's own making, for one receiver.
fn mac(side: u8, address: Ipv4Addr) -> Mac {
    let [a, b, c, d] = address.octets();
    [0x0A, side, a, b, c, d]
}

/// FNV-1a, 64 bits, and a final mixing: fixed for ever, unlike the hash of the standard library.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325, step);
    (hash ^ (hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_fit_and_stay() {
        let all = [bridge("default"), service_port("default"), pod_port("6f1c3ad6-6a4b-4c0c-9d93-4a1a2bd2b5a8")];
        assert!(all.iter().all(|name| name.len() <= 15), "{all:?}");
        assert_eq!(all, ["ronde-49dae580", "rs49dae580", "rp7f72c97035d38"]);
        assert_eq!(table("default"), "ronde_49dae580");
    }

    #[test]
    fn names_differ() {
        let uids = (0..10_000).map(|number| format!("6f1c3ad6-6a4b-4c0c-9d93-{number:012x}"));
        assert_eq!(uids.map(|uid| pod_port(&uid)).collect::<BTreeSet<_>>().len(), 10_000);
    }

    #[test]
    fn a_link_tells_its_pods_address() {
        let address = Ipv4Addr::new(10, 244, 3, 200);
        assert_eq!(address_of(&outer_mac(address)), Some(address));
        assert_eq!(address_of(&inner_mac(address)), None);
        assert_eq!(address_of(&[]), None);
    }
}
