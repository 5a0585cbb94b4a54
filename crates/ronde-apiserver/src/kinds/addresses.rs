//! The rules for IP addresses and networks in fields of built-in kinds.

use std::net::IpAddr;

use super::{errors::Errors, path::Path};
use crate::names::{is_valid_cidr, is_valid_ip, parse_ip};

/// Checks an address.
pub fn ip(address: &str, path: &Path<'_>, errors: &mut Errors) {
    errors.names(path, address, is_valid_ip(address));
}

/// Checks an address unless the old object had it, too.
pub fn ip_unless_known(address: &str, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if !known.contains(&address) {
        ip(address, path, errors);
    }
}

/// Checks a network.
pub fn cidr(network: &str, path: &Path<'_>, errors: &mut Errors) {
    errors.names(path, network, is_valid_cidr(network));
}

/// Tells whether an address is written as version 6.
pub fn is_v6(address: &str) -> bool {
    parse_ip(address).is_some_and(|ip| ip.is_ipv6() && !is_mapped(ip))
}

/// Tells whether an address is one of version 4, however it is written.
pub fn is_v4(address: &str) -> bool {
    parse_ip(address).is_some_and(|ip| ip.is_ipv4() || is_mapped(ip))
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Checks an address at which an endpoint can be reached.
pub fn endpoint_ip(address: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(ip) = parse_ip(address) else {
        errors.invalid(path, address, "must be a valid IP address");
        return;
    };
    let ip = ip.to_canonical();
    let (is_link_local, is_link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        errors.invalid(path, address, format!("may not be unspecified ({address})"));
    }
    if ip.is_loopback() {
        errors.invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if is_link_local {
        errors.invalid(path, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if is_link_local_multicast {
        errors.invalid(path, address, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}
