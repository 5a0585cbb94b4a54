//! Makes and removes links, addresses and routes. Every step may be repeated: what is there already is left as it is.
//!
//! All of it is netlink; no program is started, so that a pod is wired in about a millisecond.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    os::fd::{AsRawFd as _, BorrowedFd},
};

use futures::TryStreamExt as _;
use ipnet::Ipv4Net;
use rtnetlink::{
    Error, Handle, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder,
    packet_route::{
        link::{InfoData, InfoVeth, LinkAttribute, LinkMessage},
        route::{RouteScope, RouteType},
    },
};
use rustix::io::Errno;

use super::{
    NetError,
    names::{POD_LINK, address_of, inner_mac, outer_mac},
};

/// The loopback link is the first of every namespace.
const LOOPBACK: u32 = 1;
/// The table of addresses that are the namespace's own.
const LOCAL_TABLE: u32 = 255;

/// The bridge that pods are attached to.
#[derive(Clone, Debug)]
pub struct Bridge {
    pub index: u32,
    pub mtu: u32,
}

/// A link between the bridge and another namespace, where it is `eth0`.
pub struct Port<'a> {
    /// The name of the bridge's side.
    pub name: &'a str,
    pub netns: BorrowedFd<'a>,
    /// The address of the other side.
    pub address: Ipv4Addr,
}

/// The other side of a link: what a namespace behind the bridge is told.
pub struct Inside {
    pub address: Ipv4Net,
    pub gateway: Ipv4Addr,
    /// A subnet that is reached through a neighbour instead of the gateway.
    pub route: Option<(Ipv4Net, Ipv4Addr)>,
}

/// Makes sure that the bridge is there, has its address, and is up.
///
/// # Errors
/// If the kernel refuses.
pub async fn ensure_bridge(netlink: &Handle, name: &str, address: Ipv4Net, mtu: u32) -> Result<Bridge, NetError> {
    let failed = |source| NetError::Netlink { what: format!("make the bridge `{name}`"), source };
    let wanted = LinkBridge::new(name).address(outer_mac(address.addr()).to_vec()).mtu(mtu).up().build();
    present(netlink.link().add(wanted).execute().await).map_err(failed)?;
    let index = find(netlink, name).await?.ok_or_else(|| failed(Errno::NODEV.into()))?;
    // A bridge that was there before may be down, and so is the loopback of a new namespace.
    for index in [LOOPBACK, index] {
        set_up(netlink, index).await.map_err(failed)?;
    }
    let (ip, prefix) = (IpAddr::V4(address.addr()), address.prefix_len());
    present(netlink.address().add(index, ip, prefix).execute().await).map_err(failed)?;
    Ok(Bridge { index, mtu })
}

/// Gives a link a text that everybody can read, `ip link` too.
///
/// # Errors
/// If the kernel refuses.
pub async fn set_alias(netlink: &Handle, index: u32, alias: &str) -> Result<(), NetError> {
    let named = LinkUnspec::new_with_index(index).append_extra_attribute(LinkAttribute::IfAlias(alias.to_owned()));
    let set = netlink.link().change(named.build()).execute().await;
    set.map_err(|error| NetError::Netlink { what: "describe the bridge".to_owned(), source: to_io(error) })
}

/// Joins a namespace to the bridge; tells whether the link is new.
///
/// # Errors
/// If the kernel refuses.
pub async fn add_port(netlink: &Handle, bridge: &Bridge, port: &Port<'_>) -> Result<bool, NetError> {
    let inside = LinkMessageBuilder::<LinkUnspec>::new()
        .name(POD_LINK)
        .address(inner_mac(port.address).to_vec())
        .mtu(bridge.mtu)
        .setns_by_fd(port.netns.as_raw_fd())
        .build();
    let link = LinkVeth::new(port.name, POD_LINK)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(inside)))
        .address(outer_mac(port.address).to_vec())
        .mtu(bridge.mtu)
        .controller(bridge.index)
        .up()
        .build();
    let added = netlink.link().add(link).execute().await;
    present(added).map_err(|source| NetError::Netlink { what: format!("make the link `{}`", port.name), source })
}

/// Gives the inner side of a link its address and routes. `netlink` is that of the inner namespace.
///
/// # Errors
/// If the kernel refuses, or there is no such link.
pub async fn set_up_inside(netlink: &Handle, inside: &Inside) -> Result<(), NetError> {
    let index = find(netlink, POD_LINK).await?;
    let steps = async {
        let index = index.ok_or(io::Error::from(Errno::NODEV))?;
        for index in [LOOPBACK, index] {
            set_up(netlink, index).await?;
        }
        let (address, prefix) = (IpAddr::V4(inside.address.addr()), inside.address.prefix_len());
        present(netlink.address().add(index, address, prefix).execute().await)?;
        let everything = Ipv4Net::default();
        for (to, via) in inside.route.into_iter().chain([(everything, inside.gateway)]) {
            add_route(netlink, to, via).await?;
        }
        Ok(())
    };
    steps.await.map_err(|source| NetError::Netlink { what: format!("set up address {}", inside.address), source })
}

async fn set_up(netlink: &Handle, index: u32) -> io::Result<()> {
    let up = LinkUnspec::new_with_index(index).up().build();
    netlink.link().change(up).execute().await.map_err(to_io)
}

/// Sends packets for a subnet to a neighbour.
///
/// # Errors
/// If the kernel refuses.
pub async fn ensure_route(netlink: &Handle, to: Ipv4Net, via: Ipv4Addr) -> Result<(), NetError> {
    let added = add_route(netlink, to, via).await;
    added.map_err(|source| NetError::Netlink { what: format!("make the route to {to}"), source })
}

async fn add_route(netlink: &Handle, to: Ipv4Net, via: Ipv4Addr) -> io::Result<()> {
    let route =
        RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(to.network(), to.prefix_len()).gateway(via).build();
    present(netlink.route().add(route).execute().await)?;
    Ok(())
}

/// Makes every address of a subnet the namespace's own, so that a service needs no link and no address of its own.
///
/// # Errors
/// If the kernel refuses.
pub async fn ensure_own(netlink: &Handle, subnet: Ipv4Net) -> Result<(), NetError> {
    let route = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(subnet.network(), subnet.prefix_len())
        .kind(RouteType::Local)
        .scope(RouteScope::Host)
        .table_id(LOCAL_TABLE)
        .output_interface(LOOPBACK)
        .build();
    let added = present(netlink.route().add(route).execute().await);
    added.map_err(|source| NetError::Netlink { what: format!("take the addresses of {subnet}"), source })?;
    Ok(())
}

/// Removes a link, and with it the other side; nothing if it is gone already.
///
/// # Errors
/// If the kernel refuses.
pub async fn remove(netlink: &Handle, name: &str) -> Result<(), NetError> {
    let Some(index) = find(netlink, name).await? else { return Ok(()) };
    match netlink.link().del(index).execute().await.map_err(to_io) {
        Err(error) if !is_absent(&error) => {
            Err(NetError::Netlink { what: format!("remove the link `{name}`"), source: error })
        }
        _ => Ok(()),
    }
}

/// Lists the links of a bridge: name, and the address on the other side if it is one of ours.
///
/// # Errors
/// If the kernel does not say.
pub async fn ports(netlink: &Handle, bridge: u32) -> Result<Vec<(String, Option<Ipv4Addr>)>, NetError> {
    let is_port = |link: &LinkMessage| link.attributes.contains(&LinkAttribute::Controller(bridge));
    Ok(list(netlink)
        .await?
        .into_iter()
        .filter(is_port)
        .map(|link| (name(&link), mac(&link).and_then(address_of)))
        .collect())
}

/// A link as it is found.
#[derive(Debug)]
pub struct Found {
    pub name: String,
    pub alias: Option<String>,
    /// Whether other links are attached to it.
    pub has_ports: bool,
}

/// Lists the links whose names begin in some way.
///
/// # Errors
/// If the kernel does not say.
pub async fn find_all(netlink: &Handle, prefix: &str) -> Result<Vec<Found>, NetError> {
    let all = list(netlink).await?;
    let has_ports = |index: u32| all.iter().any(|link| link.attributes.contains(&LinkAttribute::Controller(index)));
    let alias = |link: &LinkMessage| {
        link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfAlias(alias) => Some(alias.clone()),
            _ => None,
        })
    };
    let ours = all.iter().filter(|link| name(link).starts_with(prefix));
    let found =
        |link: &LinkMessage| Found { name: name(link), alias: alias(link), has_ports: has_ports(link.header.index) };
    Ok(ours.map(found).collect())
}

/// Lists the names of all links.
///
/// # Errors
/// If the kernel does not say.
pub async fn names(netlink: &Handle) -> Result<Vec<String>, NetError> {
    Ok(list(netlink).await?.iter().map(name).collect())
}

async fn list(netlink: &Handle) -> Result<Vec<LinkMessage>, NetError> {
    let failed = |error| NetError::Netlink { what: "list the links".to_owned(), source: to_io(error) };
    netlink.link().get().execute().try_collect().await.map_err(failed)
}

/// Returns the number of a link; none if there is no such link.
///
/// # Errors
/// If the kernel does not say.
pub async fn find(netlink: &Handle, name: &str) -> Result<Option<u32>, NetError> {
    let mut found = Box::pin(netlink.link().get().match_name(name).execute());
    match found.try_next().await.map_err(to_io) {
        Ok(link) => Ok(link.map(|link| link.header.index)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(source) => Err(NetError::Netlink { what: format!("find the link `{name}`"), source }),
    }
}

fn name(link: &LinkMessage) -> String {
    let name = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    };
    link.attributes.iter().find_map(name).unwrap_or_default()
}

fn mac(link: &LinkMessage) -> Option<&[u8]> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Address(address) => Some(address.as_slice()),
        _ => None,
    })
}

/// Takes "it exists" for success; tells whether it is new.
fn present(result: Result<(), Error>) -> io::Result<bool> {
    match result.map_err(to_io) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

/// Turns the kernel's answer into the error that the same system call would have given.
pub fn to_io(error: Error) -> io::Error {
    match error {
        Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    }
}
