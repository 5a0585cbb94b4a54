//! Registries of images: who answers for them, who we are to them, and what they are asked by the distribution protocol.
//!
//! [`Registries`] has what is shared by all pulls: configured hosts, connections, tokens. [`Keyring`] has logins.
//! [`Repository`] asks for documents and content of one repository. `pull` puts them together with the store; nothing
//! in here touches files of images.
//!
//! Everything that comes from a server is hostile: bounded in size and time, and verified before it is used.

mod backoff;
mod challenge;
mod client;
mod connect;
mod download;
mod error;
mod hosts;
mod keyring;
mod repository;
mod tls;
mod tokens;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use url::Url;

use self::{
    client::{Client, Timeouts},
    connect::ProxyRules,
    hosts::{Endpoint, Hosts},
    tokens::Tokens,
};
pub use self::{
    connect::Proxies,
    download::Piece,
    error::RegistryError,
    keyring::{Keyring, Login},
    repository::{Fetched, Repository, Sources, Wanted},
};
use crate::Reference;

/// A registry that is there answers in a tenth of it; without a network nobody should wait.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection without a byte in this time is broken.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How registries are reached.
#[derive(Debug, Clone)]
pub struct RegistriesOptions {
    /// Folders with `<registry>/hosts.toml`; the first that has a registry wins.
    pub folders: Vec<PathBuf>,
    pub proxies: Proxies,
    /// For finding an address and connecting to it.
    pub connect_timeout: Duration,
    /// Without a byte in this time, a connection is taken for broken.
    pub stall_timeout: Duration,
}

impl RegistriesOptions {
    /// Hosts as some folders have them, proxies as the environment has them.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self {
            folders,
            proxies: Proxies::from_environment(),
            connect_timeout: CONNECT_TIMEOUT,
            stall_timeout: STALL_TIMEOUT,
        }
    }
}

/// All registries. Cheap to clone; connections and tokens are shared.
#[derive(Debug, Clone)]
pub struct Registries(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    hosts: Hosts,
    client: Client,
    tokens: Tokens,
    /// Hosts of this machine that were found not to speak TLS.
    plain: Mutex<BTreeSet<String>>,
}

impl Registries {
    /// Reads which hosts are configured. Nobody is asked yet.
    pub fn new(options: RegistriesOptions) -> Result<Self, RegistryError> {
        let timeouts = Timeouts { connect: options.connect_timeout, stall: options.stall_timeout };
        Ok(Self(Arc::new(Shared {
            hosts: Hosts::read(&options.folders)?,
            client: Client::new(ProxyRules::new(&options.proxies), timeouts),
            tokens: Tokens::default(),
            plain: Mutex::default(),
        })))
    }

    /// Finds out who answers for the repository of an image, and with which logins.
    pub async fn repository(&self, keyring: &Keyring, name: &Reference) -> Result<Repository, RegistryError> {
        Repository::new(self.clone(), keyring, name).await
    }

    fn endpoints(&self, registry: &str) -> Result<Vec<Endpoint>, RegistryError> {
        self.0.hosts.endpoints(registry)
    }

    /// Returns the address of an endpoint as it is reached by now.
    fn base_of(&self, endpoint: &Endpoint) -> Url {
        let mut base = endpoint.base.clone();
        if endpoint.may_be_plain && self.0.plain.lock().contains(endpoint.authority()) {
            let _ = base.set_scheme("http");
        }
        base
    }

    /// Its number is bounded by the ports of this machine.
    fn remember_plain(&self, endpoint: &Endpoint) {
        self.0.plain.lock().insert(endpoint.authority().to_owned());
    }
}
