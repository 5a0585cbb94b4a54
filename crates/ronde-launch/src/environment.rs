//! What the launcher finds around itself: variables, folder, addresses, randomness. Read here and nowhere else.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
};

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::agent::names::Names;

/// Any port: nothing is sent there.
const DISCARD: u16 = 9;
/// An address that nobody has: the way there is the way out.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// The variables of this process, but for those that are not text.
pub fn variables() -> BTreeMap<String, String> {
    let all = std::env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}

pub fn folder() -> io::Result<PathBuf> {
    std::env::current_dir()
}

/// A secret that nobody can guess, as text.
pub fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("cannot get random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a host is this machine: one of its addresses can be bound here.
pub async fn is_here(host: &str) -> bool {
    addresses(host).await.iter().any(|address| UdpSocket::bind(SocketAddr::new(*address, 0)).is_ok())
}

/// The address under which this machine is reached from a host.
pub async fn own_address(host: &str) -> IpAddr {
    let there = addresses(host).await;
    let mut sources = there.into_iter().chain([ELSEWHERE]).filter_map(|address| source_towards(address).ok());
    sources.next().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

async fn addresses(host: &str) -> Vec<IpAddr> {
    // First without the C library: where we are linked statically it may not know how.
    if let Ok(found) = Names::default().addresses(host).await {
        return found;
    }
    // A name that cannot be found here may still be one that ssh's configuration knows.
    let found = tokio::net::lookup_host((host, DISCARD)).await;
    found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
}

fn source_towards(address: IpAddr) -> io::Result<IpAddr> {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect((address, DISCARD))?;
    Ok(socket.local_addr()?.ip())
}

pub fn has_interface(name: &str) -> bool {
    !name.contains('/') && Path::new("/sys/class/net").join(name).exists()
}

/// Looks for a program in a list of folders such as `$PATH`.
pub fn has_program(path: Option<&String>, name: &str) -> bool {
    path.is_some_and(|path| std::env::split_paths(path).any(|folder| folder.join(name).is_file()))
}
