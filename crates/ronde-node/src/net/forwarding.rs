//! The machine's switch for forwarding packets between links: on while pods want to reach the world.
//!
//! It is turned on only if it was off, and turned off again by [`put_back`], unless another instance still needs it.

use std::{io, path::Path};

use super::{Missing, NetError, links, names::BRIDGE_PREFIX, netns::Netns, state::State};

/// Of the network namespace of the thread that opens it.
const SWITCH: &str = "/proc/sys/net/ipv4/ip_forward";

/// Makes sure that packets are forwarded, and remembers in the state if that is our doing; says what is missing.
///
/// # Errors
/// If the state cannot be kept.
pub async fn ensure(netns: &Netns, state: &mut State, state_dir: &Path) -> Result<Option<Missing>, NetError> {
    if matches!(netns.run(is_on).await, Ok(true)) {
        return Ok(None);
    }
    // Remembered first: a daemon that dies in between puts back once too often rather than never.
    state.forwarding_enabled = true;
    state.write(state_dir)?;
    let consequence = "pods cannot reach addresses outside this machine".to_owned();
    let missing = |error| Missing { what: format!("cannot turn on IP forwarding: {error}"), consequence };
    Ok(netns.run(|| set(true)).await.err().map(missing))
}

/// Turns forwarding off again, unless another instance needs it. For who has turned it on.
///
/// # Errors
/// If the kernel does not say which links there are.
pub async fn put_back(netns: &Netns) -> Result<(), NetError> {
    let netlink = netns.netlink().await.map_err(NetError::Namespace)?;
    let is_needed = links::names(&netlink).await?.iter().any(|name| name.starts_with(BRIDGE_PREFIX));
    if !is_needed && let Err(error) = netns.run(|| set(false)).await {
        tracing::warn!(%error, "cannot turn IP forwarding off");
    }
    Ok(())
}

fn is_on() -> io::Result<bool> {
    Ok(fs_err::read_to_string(SWITCH)?.trim() != "0")
}

fn set(on: bool) -> io::Result<()> {
    fs_err::write(SWITCH, if on { "1" } else { "0" })
}
