//! One daemon at a time looks for free subnets: from its choice until everybody sees it among the machine's links.
//!
//! The kernel keeps the order: a name of a socket can be taken once in a network namespace, which is as far as subnets
//! reach, and is free again when its holder is gone, however that went.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};

const NAME: &str = "ronde-subnets";
/// A daemon needs its turn for part of a second. One that stands still is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// The right to choose; given back when it is dropped.
#[derive(Debug)]
pub struct SubnetLock {
    _name: UnixDatagram,
}

impl SubnetLock {
    /// Waits for those before us; nothing if that takes too long.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub async fn acquire() -> io::Result<Option<Self>> {
        let begun = Instant::now();
        loop {
            match UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(NAME)?) {
                Ok(name) => return Ok(Some(Self { _name: name })),
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error),
                Err(_) if begun.elapsed() > PATIENCE => {
                    tracing::warn!(
                        "another ronde has held the lock on subnets for {} s: going on without it",
                        PATIENCE.as_secs()
                    );
                    return Ok(None);
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_next_waits_for_its_turn() {
        let first = SubnetLock::acquire().await.unwrap();
        assert!(first.is_some());
        assert!(timeout(10 * PAUSE, SubnetLock::acquire()).await.is_err());
        drop(first);
        assert!(SubnetLock::acquire().await.unwrap().is_some());
    }
}
