//! What the machine's network looks like before we touch it: its subnets, and its way to the world. Changes nothing.

use std::net::{IpAddr, Ipv4Addr};

use futures::TryStreamExt as _;
use ipnet::Ipv4Net;
use rtnetlink::{
    Handle, RouteMessageBuilder,
    packet_route::{
        address::{AddressAttribute, AddressMessage},
        link::LinkAttribute,
        route::{RouteAddress, RouteAttribute, RouteMessage},
    },
};

use super::{NetError, links::to_io};

/// The link that the default route goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uplink {
    pub mtu: Option<u32>,
    /// The machine's address as the world sees it.
    pub address: Option<Ipv4Addr>,
}

/// Returns every subnet that the machine has an address in or a route to.
///
/// # Errors
/// If the kernel does not say.
pub async fn networks(netlink: &Handle) -> Result<Vec<Ipv4Net>, NetError> {
    let addresses = addresses(netlink).await?;
    let mut found: Vec<Ipv4Net> = addresses.iter().filter_map(subnet).collect();
    found.extend(routes(netlink).await?.iter().filter_map(destination));
    Ok(found)
}

/// Returns the way to the world; none if there is no default route.
///
/// # Errors
/// If the kernel does not say.
pub async fn uplink(netlink: &Handle) -> Result<Option<Uplink>, NetError> {
    let routes = routes(netlink).await?;
    let Some(index) = routes.iter().filter(|route| destination(route).is_none()).find_map(output) else {
        return Ok(None);
    };
    let of_link = |address: &&AddressMessage| address.header.index == index;
    let address = addresses(netlink).await?.iter().filter(of_link).find_map(subnet).map(|subnet| subnet.addr());
    let mut links = Box::pin(netlink.link().get().match_index(index).execute());
    let link = links.try_next().await.map_err(reading("links"))?;
    let mtu = link.and_then(|link| {
        link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        })
    });
    Ok(Some(Uplink { mtu, address }))
}

async fn addresses(netlink: &Handle) -> Result<Vec<AddressMessage>, NetError> {
    netlink.address().get().execute().try_collect().await.map_err(reading("addresses"))
}

async fn routes(netlink: &Handle) -> Result<Vec<RouteMessage>, NetError> {
    let all = RouteMessageBuilder::<Ipv4Addr>::new().build();
    netlink.route().get(all).execute().try_collect().await.map_err(reading("routes"))
}

fn reading(what: &'static str) -> impl FnOnce(rtnetlink::Error) -> NetError {
    move |error| NetError::Netlink { what: format!("read the machine's {what}"), source: to_io(error) }
}

fn subnet(address: &AddressMessage) -> Option<Ipv4Net> {
    let local = |attribute: &AddressAttribute| match attribute {
        AddressAttribute::Local(IpAddr::V4(local)) => Some(*local),
        _ => None,
    };
    Ipv4Net::new(address.attributes.iter().find_map(local)?, address.header.prefix_len).ok()
}

/// Returns where a route goes to; none for the default route.
fn destination(route: &RouteMessage) -> Option<Ipv4Net> {
    let address = |attribute: &RouteAttribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(*address),
        _ => None,
    };
    Ipv4Net::new(route.attributes.iter().find_map(address)?, route.header.destination_prefix_length).ok()
}

fn output(route: &RouteMessage) -> Option<u32> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    })
}
