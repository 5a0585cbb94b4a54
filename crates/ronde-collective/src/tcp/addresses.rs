//! The addresses of this machine, as candidates for peers to try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Every address of every interface, loopback last; peers find out which one leads here.
pub(crate) fn of_this_machine() -> Vec<IpAddr> {
    let v4 = fs_err::read_to_string("/proc/net/fib_trie").map(|text| v4_addresses(&text)).unwrap_or_default();
    let v6 = fs_err::read_to_string("/proc/net/if_inet6").map(|text| v6_addresses(&text)).unwrap_or_default();
    let mut all: Vec<IpAddr> = v4.into_iter().map(IpAddr::V4).chain(v6.into_iter().map(IpAddr::V6)).collect();
    all.sort();
    all.dedup();
    all.sort_by_key(IpAddr::is_loopback);
    all
}

/// A line with an address, and below it the word that it is one of ours.
fn v4_addresses(trie: &str) -> Vec<Ipv4Addr> {
    let mut last: Option<Ipv4Addr> = None;
    let mut found = Vec::new();
    for line in trie.lines() {
        if let Some(address) = line.trim().strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line.contains("/32 host LOCAL") {
            found.extend(last);
        }
    }
    found
}

/// Lines of `address index prefix scope flags name`. Link-local ones mean nothing without their interface.
fn v6_addresses(table: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| u128::from_str_radix(line.split_whitespace().next()?, 16).ok().map(Ipv6Addr::from);
    table.lines().filter_map(address).filter(|address| !address.is_unicast_link_local()).collect()
}

#[cfg(test)]
mod tests {
    use super::{of_this_machine, v4_addresses, v6_addresses};

    #[test]
    fn local_addresses_are_read_from_the_routing_tree() {
        let trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n";
        assert_eq!(v4_addresses(trie), ["10.0.0.7".parse::<std::net::Ipv4Addr>().unwrap()]);
    }

    #[test]
    fn link_local_addresses_are_left_out() {
        let table =
            "00000000000000000000000000000001 01 80 10 80 lo\nfe80000000000000a00627fffeb4a2c5 02 40 20 80 eth0\n";
        assert_eq!(v6_addresses(table), [std::net::Ipv6Addr::LOCALHOST]);
    }

    #[test]
    fn loopback_is_the_last_of_ours() {
        let all = of_this_machine();
        assert!(all.last().is_some_and(std::net::IpAddr::is_loopback), "{all:?}");
    }
}
