//! Which pod has which address. Pure: the kernel's links are the memory, read in by whoever opens the network.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use ipnet::Ipv4Net;

/// The first addresses are for the bridge, the services and what may come.
const FIRST: u32 = 10;

/// The addresses of a subnet and who has them; an owner is the name of a pod's link.
pub struct Leases {
    subnet: Ipv4Net,
    owned: BTreeMap<String, Ipv4Addr>,
    taken: BTreeSet<Ipv4Addr>,
    /// Where to look next: an address that was given back rests as long as possible.
    next: u32,
}

impl Leases {
    pub fn new(subnet: Ipv4Net) -> Self {
        Self { subnet, owned: BTreeMap::new(), taken: BTreeSet::new(), next: FIRST }
    }

    /// Records that an owner has an address, unless another has it.
    pub fn claim(&mut self, owner: &str, address: Ipv4Addr) -> bool {
        if self.owned.get(owner) == Some(&address) {
            return true;
        }
        if !self.is_for_pods(address) || self.taken.contains(&address) {
            return false;
        }
        self.release(owner);
        self.owned.insert(owner.to_owned(), address);
        self.taken.insert(address)
    }

    /// Returns the owner's address: the one it has, else the one it wants, else a free one; none if all are taken.
    pub fn assign(&mut self, owner: &str, wanted: Option<Ipv4Addr>) -> Option<Ipv4Addr> {
        if let Some(address) = self.owned.get(owner) {
            return Some(*address);
        }
        if let Some(wanted) = wanted.filter(|wanted| self.claim(owner, *wanted)) {
            return Some(wanted);
        }
        let (first, size) = (FIRST, self.size());
        let round = (self.next..size).chain(first..self.next);
        let number = round.into_iter().find(|number| !self.taken.contains(&self.nth(*number)))?;
        self.next = if number + 1 < size { number + 1 } else { first };
        let address = self.nth(number);
        self.claim(owner, address).then_some(address)
    }

    /// Gives an owner's address back.
    pub fn release(&mut self, owner: &str) {
        if let Some(address) = self.owned.remove(owner) {
            self.taken.remove(&address);
        }
    }

    fn is_for_pods(&self, address: Ipv4Addr) -> bool {
        let number = u32::from(address).wrapping_sub(u32::from(self.subnet.network()));
        (FIRST..self.size()).contains(&number)
    }

    /// One beyond the last number: the highest address of the subnet is for broadcasts.
    fn size(&self) -> u32 {
        u32::from(self.subnet.broadcast()) - u32::from(self.subnet.network())
    }

    fn nth(&self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.subnet.network()) + number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases() -> Leases {
        Leases::new("10.1.2.0/24".parse().unwrap())
    }

    fn ip(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 1, 2, last)
    }

    #[test]
    fn addresses_are_given_in_turn_and_rest_after_use() {
        let mut leases = leases();
        assert_eq!(leases.assign("a", None), Some(ip(10)));
        assert_eq!(leases.assign("b", None), Some(ip(11)));
        leases.release("a");
        assert_eq!(leases.assign("c", None), Some(ip(12)), "the one given back is not handed out at once");
        assert_eq!(leases.assign("c", None), Some(ip(12)), "who has one keeps it");
    }

    #[test]
    fn a_wanted_address_is_given_if_it_can_be() {
        let mut leases = leases();
        assert_eq!(leases.assign("a", Some(ip(99))), Some(ip(99)));
        assert_eq!(leases.assign("b", Some(ip(99))), Some(ip(10)), "another has it");
        assert_eq!(leases.assign("c", Some(ip(1))), Some(ip(11)), "the bridge has it");
        assert_eq!(leases.assign("d", Some(Ipv4Addr::new(10, 9, 9, 9))), Some(ip(12)), "it is of another subnet");
        assert_eq!(leases.assign("e", Some(ip(255))), Some(ip(13)), "it is for broadcasts");
    }

    #[test]
    fn a_claim_moves_its_owner() {
        let mut leases = leases();
        assert!(leases.claim("a", ip(50)));
        assert!(leases.claim("a", ip(50)));
        assert!(leases.claim("a", ip(51)));
        assert!(leases.claim("b", ip(50)), "the old one is free");
        assert!(!leases.claim("b", ip(51)));
    }

    #[test]
    fn all_addresses_are_used_before_there_is_none() {
        let mut leases = leases();
        let given: BTreeSet<_> = (0..245).map(|number| leases.assign(&number.to_string(), None).unwrap()).collect();
        assert_eq!((given.len(), given.first(), given.last()), (245, Some(&ip(10)), Some(&ip(254))));
        assert_eq!(leases.assign("one more", None), None);
        leases.release("77");
        assert_eq!(leases.assign("one more", None), Some(ip(87)));
    }
}
