//! The rules for IP addresses and networks in fields of built-in kinds.

use std::net::IpAddr;

use super::{errors::Errors, path::Path};
use crate::names::{is_valid_cidr, is_valid_ip, parse_cidr, parse_ip};

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

/// Tells whether `inner` lies in `outer` and is smaller.
pub fn is_strictly_inside(inner: &str, outer: &str) -> bool {
    let (Some((inner, inner_bits)), Some((outer, outer_bits))) = (parse_cidr(inner), parse_cidr(outer)) else {
        return false;
    };
    let masked = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()).checked_shr(32_u32.saturating_sub(outer_bits.into())),
        IpAddr::V6(ip) => ip.to_bits().checked_shr(128_u32.saturating_sub(outer_bits.into())),
    };
    inner.is_ipv4() == outer.is_ipv4() && masked(inner) == masked(outer) && inner_bits > outer_bits
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

#[cfg(test)]
mod tests {
    use super::is_strictly_inside;

    #[test]
    fn a_network_is_inside_a_larger_one() {
        let rows = [
            ("10.1.0.0/16", "10.0.0.0/8", true),
            ("10.0.0.0/8", "10.0.0.0/8", false),
            ("11.0.0.0/16", "10.0.0.0/8", false),
            ("10.0.0.0/8", "0.0.0.0/0", true),
            ("fd00:1::/32", "fd00::/8", true),
            ("fd00::/8", "10.0.0.0/8", false),
        ];
        for (inner, outer, expected) in rows {
            assert_eq!(is_strictly_inside(inner, outer), expected, "{inner} in {outer}");
        }
    }
}
