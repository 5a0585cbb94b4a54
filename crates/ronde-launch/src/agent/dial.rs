//! Dials the agent of a host: its addresses, one after the other, for a moment again and again.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{
    channel::{self, Channel, ChannelError},
    names::Names,
    secret::Secret,
};

/// Names the port of the agents.
pub const PORT_VARIABLE: &str = "RONDE_AGENT_PORT";
/// Names the file in which an agent keeps the hosts of its job.
pub const HOSTS_VARIABLE: &str = "RONDE_HOSTS_FILE";
/// Where agents listen unless [`PORT_VARIABLE`] says otherwise.
pub const PORT_DEFAULT: u16 = 9009;
/// A pod that has just started has a name, or an agent, a moment later.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

/// Dials agents.
#[derive(Debug, Clone)]
pub struct Dialer {
    pub names: Names,
    pub port: u16,
    pub secret: Secret,
}

/// Why an agent cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("cannot find host `{host}`: {source}")]
    Name { host: String, source: io::Error },
    #[error("cannot reach the agent of host `{host}` at {address}: {source}")]
    Channel { host: String, address: SocketAddr, source: ChannelError },
}

impl DialError {
    /// Tells whether another try a moment later may do better.
    fn is_passing(&self) -> bool {
        match self {
            Self::Name { .. } => true,
            Self::Channel { source: ChannelError::Io(error), .. } => {
                matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::HostUnreachable)
            }
            Self::Channel { .. } => false,
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Channel { source: ChannelError::Secret | ChannelError::Refused, .. } => {
                Some("both sides need the same secret; see RONDE_SECRET_FILE")
            }
            Self::Channel { source: ChannelError::Io(_), .. } => {
                Some("run `ronde agent` there; RONDE_AGENT_PORT sets its port")
            }
            _ => None,
        }
    }
}

impl Dialer {
    /// Makes a channel to the agent of a host.
    pub async fn dial(&self, host: &str) -> Result<Channel, DialError> {
        let begun = Instant::now();
        loop {
            match self.dial_once(host).await {
                Err(error) if error.is_passing() && begun.elapsed() < PATIENCE => sleep(PAUSE).await,
                done => return done,
            }
        }
    }

    /// Tries every address of a host once.
    pub async fn dial_once(&self, host: &str) -> Result<Channel, DialError> {
        let name_error = |source| DialError::Name { host: host.to_owned(), source };
        let addresses = self.names.addresses(host).await.map_err(name_error)?;
        let mut failure = name_error(io::ErrorKind::NotFound.into());
        for address in addresses {
            match self.dial_address(host, address).await {
                Ok(channel) => return Ok(channel),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn dial_address(&self, host: &str, address: IpAddr) -> Result<Channel, DialError> {
        let address = SocketAddr::new(address, self.port);
        let made = channel::connect(address, &self.secret).await;
        made.map_err(|source| DialError::Channel { host: host.to_owned(), address, source })
    }
}
