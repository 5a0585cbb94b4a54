//! Allreduce over hosts with several members each: shared memory inside, the wire between.
//!
//! Inside a host everybody gets a part of the host's sum; the owners of a part on all hosts combine it over the
//! wire, all parts at once; inside a host the parts are gathered. For H hosts each byte crosses the network
//! 2 (H - 1) / H times for each host, not for each member. Where hosts have different numbers of members, one member
//! of each host does what goes between.

use std::ops::Range;

use super::{Team, even_parts};
use crate::{
    error::Result,
    reduce,
    shm::panels::{Combine, Panels},
    wire::Wire,
};

/// Which members share memory.
#[derive(Debug, Clone)]
pub(crate) struct Topology {
    /// The members of each host, in the order of their segment.
    pub(crate) hosts: Vec<Vec<usize>>,
}

impl Topology {
    pub(crate) fn is_one_host(&self) -> bool {
        self.hosts.len() == 1
    }

    /// Whether some members share memory.
    pub(crate) fn has_neighbours(&self) -> bool {
        self.hosts.iter().any(|host| host.len() > 1)
    }

    fn is_homogeneous(&self) -> bool {
        self.hosts.iter().all(|host| host.len() == self.hosts[0].len())
    }

    fn place_of(&self, member: usize) -> (usize, usize) {
        let place = |host: &Vec<usize>| host.iter().position(|each| *each == member);
        let found = self.hosts.iter().enumerate().find_map(|(host, members)| Some((host, place(members)?)));
        found.expect("every member is on a host")
    }

    /// What each member of a host owns while the hosts combine.
    fn parts(&self, host: usize, elements: usize, element: usize) -> Vec<Range<usize>> {
        let members = self.hosts[host].len();
        if self.is_homogeneous() {
            even_parts(elements, members, element)
        } else {
            let all = elements * element;
            (0..members).map(|member| if member == 0 { 0..all } else { all..all }).collect()
        }
    }
}

/// Combines the data of all members of the group; everybody has the result, unscaled.
pub(crate) fn allreduce(
    wire: &mut Wire,
    topology: &Topology,
    me: usize,
    combine: Combine,
    data: &mut [u8],
) -> Result<()> {
    let (host, local) = topology.place_of(me);
    let parts = topology.parts(host, data.len() / combine.dtype.size(), combine.dtype.size());
    let own = parts[local].clone();
    let unscaled = Combine { scale: 1.0, ..combine };
    if let Some(shm) = &mut wire.shm {
        shm.run(Panels::in_place(&parts, Some(unscaled), false, data))?;
    }
    let across: Vec<usize> = topology.hosts.iter().filter_map(|host| host.get(local).copied()).collect();
    if !own.is_empty() {
        Team { wire, members: &across, me: host }.allreduce(unscaled, &mut data[own.clone()])?;
        reduce::scale(combine.dtype, &mut data[own], combine.scale);
    }
    match &mut wire.shm {
        Some(shm) => shm.run(Panels::in_place(&parts, None, true, data)),
        None => Ok(()),
    }
}
