//! The two subnets of the cluster, pods' and services', chosen so that they clash with nothing on the machine.
//!
//! Pure but for [`Subnets::ensure`], which remembers the choice in the state file: services keep their addresses in
//! the API's store, so their subnet must outlive any restart.

use std::{net::Ipv4Addr, path::Path};

use ipnet::Ipv4Net;

use super::{NetError, host_network, links, names, netns::NetworkPlace, resolver::Resolver, state::State};

/// Where a new cluster usually has its services and pods; taken when free.
const SERVICES_FIRST: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const PODS_FIRST: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 0);
/// Private ranges, the most spacious first; the last is the one that carriers use.
const POOLS: [Ipv4Net; 4] = [
    Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12),
    Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16),
];
/// Sizes to try, the best first: 65 534 addresses, 4094, 254.
const PREFIXES: [u8; 3] = [16, 20, 24];
/// A wider route means "everything else", as a VPN's 0.0.0.0/1 does, and is no network of its own.
const WIDEST_PREFIX: u8 = 8;

/// The subnets of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnets {
    pub pods: Ipv4Net,
    pub services: Ipv4Net,
}

impl Subnets {
    /// Returns the subnets of this instance: those it has, else a choice, which is kept.
    ///
    /// # Errors
    /// If the machine cannot be asked, the state cannot be kept, or every private subnet is in use.
    pub async fn ensure(instance: &str, state_dir: &Path, place: &NetworkPlace) -> Result<Self, NetError> {
        let netlink = place.netns().await.map_err(NetError::Namespace)?.netlink().await.map_err(NetError::Namespace)?;
        let state = State::read(state_dir)?;
        let is_in_use = links::find(&netlink, &names::bridge(instance)).await?.is_some();
        if let Some(state) = state.as_ref().filter(|_| is_in_use) {
            return Ok(state.subnets());
        }
        let mut taken = host_network::networks(&netlink).await?;
        taken.extend(Resolver::of_machine().nameservers_v4().map(Ipv4Net::from));
        let had = state.as_ref().map(State::subnets);
        let subnets = choose_again(had, &taken).ok_or(NetError::NoSubnet)?;
        if had != Some(subnets) {
            let mut new = State::new(subnets);
            new.forwarding_enabled = state.is_some_and(|state| state.forwarding_enabled);
            new.write(state_dir)?;
        }
        Ok(subnets)
    }

    /// Returns the bridge's address, by which pods reach the machine and the world.
    pub fn gateway(&self) -> Ipv4Addr {
        nth(self.pods, 1)
    }

    /// Returns the address, in the pods' subnet, of the namespace that the services live in.
    pub fn service_hop(&self) -> Ipv4Addr {
        nth(self.pods, 2)
    }

    /// Returns the address of the API server's own service.
    pub fn api(&self) -> Ipv4Addr {
        nth(self.services, 1)
    }

    /// Returns the name server's address.
    pub fn dns(&self) -> Ipv4Addr {
        nth(self.services, 10)
    }
}

/// Chooses subnets that share no address with `taken`; none if there is no room.
pub fn choose(taken: &[Ipv4Net]) -> Option<Subnets> {
    let mut taken = taken.to_vec();
    let services = first_free(&taken, SERVICES_FIRST)?;
    taken.push(services);
    Some(Subnets { pods: first_free(&taken, PODS_FIRST)?, services })
}

/// Keeps the services' subnet, for the store has its addresses; and the pods', unless the machine uses it by now.
fn choose_again(had: Option<Subnets>, taken: &[Ipv4Net]) -> Option<Subnets> {
    let Some(had) = had else { return choose(taken) };
    let is_free = |net: Ipv4Net| !clashes(net, taken);
    if !is_free(had.services) {
        tracing::warn!(subnet = %had.services, "something else on this machine now uses the subnet of the services");
    }
    if is_free(had.pods) {
        return Some(had);
    }
    let taken: Vec<Ipv4Net> = taken.iter().copied().chain([had.services]).collect();
    Some(Subnets { pods: first_free(&taken, PODS_FIRST)?, ..had })
}

fn first_free(taken: &[Ipv4Net], preferred: Ipv4Addr) -> Option<Ipv4Net> {
    PREFIXES.iter().flat_map(|prefix| candidates(*prefix, preferred)).find(|net| !clashes(*net, taken))
}

fn clashes(net: Ipv4Net, taken: &[Ipv4Net]) -> bool {
    let mut networks = taken.iter().filter(|other| other.prefix_len() >= WIDEST_PREFIX);
    networks.any(|other| net.contains(other) || other.contains(&net))
}

/// Lists all subnets of a size: from the preferred address to the end of its pool, then the rest in order.
fn candidates(prefix: u8, preferred: Ipv4Addr) -> impl Iterator<Item = Ipv4Net> {
    let all = move || POOLS.into_iter().filter_map(move |pool| pool.subnets(prefix).ok()).flatten();
    let liked = move |net: &Ipv4Net| net.network() >= preferred && POOLS[0].contains(net);
    all().filter(liked).chain(all().filter(move |net| !liked(net)))
}

fn nth(net: Ipv4Net, number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(net.network()) + number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(what: &str, taken: &str, expected: Option<(&str, &str)>) {
        let taken: Vec<Ipv4Net> = taken.split_whitespace().map(|net| net.parse().unwrap()).collect();
        let found = choose(&taken).map(|found| (found.pods.to_string(), found.services.to_string()));
        let expected = expected.map(|(pods, services)| (pods.to_owned(), services.to_owned()));
        assert_eq!(found, expected, "{what}");
    }

    #[test]
    fn the_usual_subnets_are_taken_when_free() {
        let usual = Some(("10.244.0.0/16", "10.96.0.0/16"));
        check("nothing is in use", "", usual);
        check("a home network", "192.168.1.0/24 192.168.1.5/32", usual);
        check("containers of another tool", "172.17.0.0/16 172.18.0.0/16", usual);
        check("a VPN that takes all traffic by two halves", "0.0.0.0/1 128.0.0.0/1", usual);
    }

    #[test]
    fn what_is_in_use_is_left_alone() {
        check("a second instance", "10.244.0.0/16 10.96.0.0/16", Some(("10.245.0.0/16", "10.97.0.0/16")));
        check("one address of the pods' subnet", "10.244.7.9/32", Some(("10.245.0.0/16", "10.96.0.0/16")));
        check("the upper half of 10/8", "10.128.0.0/9", Some(("10.0.0.0/16", "10.96.0.0/16")));
        check("all of 10/8", "10.0.0.0/8", Some(("172.17.0.0/16", "172.16.0.0/16")));
        check("10/8 and 172.16/12", "10.0.0.0/8 172.16.0.0/12", Some(("100.65.0.0/16", "100.64.0.0/16")));
        check(
            "only 192.168/16 is left, and part of it in use",
            "10.0.0.0/8 172.16.0.0/12 100.64.0.0/10 192.168.1.0/24",
            Some(("192.168.32.0/20", "192.168.16.0/20")),
        );
        check("nothing is left", "10.0.0.0/8 172.16.0.0/12 100.64.0.0/10 192.168.0.0/16", None);
    }

    #[test]
    fn a_choice_is_kept_while_it_can_be() {
        let had = choose(&[]).unwrap();
        let after = |taken: &str| choose_again(Some(had), &[taken.parse().unwrap()]).unwrap();
        assert_eq!(after("192.168.0.0/24"), had);
        assert_eq!(after("10.244.9.0/24"), Subnets { pods: "10.245.0.0/16".parse().unwrap(), ..had });
        assert_eq!(after("10.96.1.0/24"), had, "services keep their addresses");
    }

    #[test]
    fn addresses_with_a_meaning() {
        let subnets = choose(&[]).unwrap();
        assert_eq!(subnets.gateway(), Ipv4Addr::new(10, 244, 0, 1));
        assert_eq!(subnets.service_hop(), Ipv4Addr::new(10, 244, 0, 2));
        assert_eq!(subnets.api(), Ipv4Addr::new(10, 96, 0, 1));
        assert_eq!(subnets.dns(), Ipv4Addr::new(10, 96, 0, 10));
    }

    proptest! {
        #[test]
        fn a_choice_clashes_with_nothing(taken in prop::collection::vec((any::<u32>(), 8_u8..=32), 0..40)) {
            let private = |(bits, prefix): &(u32, u8)| Ipv4Net::new_assert(Ipv4Addr::from(bits & 0x00FF_FFFF | 0x0A00_0000), *prefix).trunc();
            let mut all: Vec<Ipv4Net> = taken.iter().map(private).collect();
            if let Some(found) = choose(&all) {
                all.extend([found.pods]);
                prop_assert!(all.iter().all(|net| !net.contains(&found.services) && !found.services.contains(net)));
                all.pop();
                prop_assert!(all.iter().all(|net| !net.contains(&found.pods) && !found.pods.contains(net)));
            }
        }
    }
}
