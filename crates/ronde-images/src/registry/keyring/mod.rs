//! Who we are to registries: logins from Docker's configuration files and from pull secrets.
//!
//! A login is for a host, or for a host and a path on it; hosts may have wildcards, as the kubelet allows it:
//! `*.example.com` is any host one level below. The longest path is tried first, and each that fits is tried.
//! Only the user's own configuration may name helper programs: a secret of the cluster must not start anything here.
//! Nothing of this is ever shown: `Debug` has no secrets, and errors quote no configuration.

mod docker_config;
mod helper;

use std::{collections::BTreeMap, fmt, io, path::Path};

use fs_err as fs;

use self::docker_config::{DockerConfig, Entries};
use super::error::RegistryError;
use crate::Reference;

/// Names of Docker's registry in configurations, apart from the one in names of images.
const DOCKER_NAMES: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];
/// What helpers know that registry by.
const DOCKER_SERVER: &str = "https://index.docker.io/v1/";
/// A configuration with a thousand logins has less.
const CONFIG_SIZE_MAX: u64 = 1 << 20;

/// What proves to a registry who asks.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    Password {
        username: String,
        password: String,
    },
    /// Exchanged for a token of the registry: what `docker login` gets instead of keeping the password.
    IdentityToken(String),
    /// Sent to the registry as it is.
    RegistryToken(String),
}

impl Login {
    /// Makes a login of a user and a password.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self::Password { username: username.into(), password: password.into() }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password { .. } => "Login::Password",
            Self::IdentityToken(_) => "Login::IdentityToken",
            Self::RegistryToken(_) => "Login::RegistryToken",
        })
    }
}

/// All logins that somebody has.
#[derive(Clone, Default)]
pub struct Keyring {
    logins: Vec<(Place, Login)>,
    helpers: Helpers,
}

/// Programs that keep logins.
#[derive(Clone, Default)]
struct Helpers {
    by_host: BTreeMap<String, String>,
    default: Option<String>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("logins", &self.logins.len()).finish_non_exhaustive()
    }
}

impl Keyring {
    /// Reads a secret of type `kubernetes.io/dockerconfigjson`. Helper programs in it are passed over.
    pub fn from_docker_config(json: &[u8]) -> Result<Self, RegistryError> {
        let config: DockerConfig = docker_config::parse(json)?;
        Self::of_entries(config.auths)
    }

    /// Reads a secret of type `kubernetes.io/dockercfg`, the older form.
    pub fn from_legacy_config(json: &[u8]) -> Result<Self, RegistryError> {
        Self::of_entries(docker_config::parse(json)?)
    }

    /// Reads `.docker/config.json` in a home folder, with the helper programs that it names. No file is no login.
    pub fn of_user(home: &Path) -> Result<Self, RegistryError> {
        let path = home.join(".docker/config.json");
        let fault = |cause: String| RegistryError::File { path: path.clone(), cause };
        let json = match fs::metadata(&path) {
            Ok(found) if found.len() > CONFIG_SIZE_MAX => return Err(fault("too large".to_owned())),
            Ok(_) => fs::read(&path).map_err(|error| fault(error.kind().to_string()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(fault(error.kind().to_string())),
        };
        let config: DockerConfig = docker_config::parse(&json).map_err(|error| fault(error.to_string()))?;
        let by_host =
            config.cred_helpers.into_iter().filter_map(|(host, name)| Some((Place::parse(&host)?.host, name)));
        let helpers = Helpers { by_host: by_host.collect(), default: config.creds_store };
        Ok(Self { helpers, ..Self::of_entries(config.auths).map_err(|error| fault(error.to_string()))? })
    }

    fn of_entries(entries: Entries) -> Result<Self, RegistryError> {
        let mut keyring = Self::default();
        for (place, entry) in entries {
            // An empty entry says that a helper has the login.
            if let (Some(place), Some(login)) = (Place::parse(&place), entry.login()?) {
                keyring.logins.push((place, login));
            }
        }
        Ok(keyring)
    }

    /// Adds all logins of another keyring after those of this one.
    pub fn extend(&mut self, other: Self) {
        self.logins.extend(other.logins);
        self.helpers.by_host.extend(other.helpers.by_host);
        self.helpers.default = self.helpers.default.take().or(other.helpers.default);
    }

    /// Adds a login for a registry, or for a path on it.
    pub fn add(&mut self, place: &str, login: Login) {
        self.logins.extend(Place::parse(place).map(|place| (place, login)));
    }

    /// Returns the logins for an image, the one to try first in front.
    pub async fn logins(&self, name: &Reference) -> Result<Vec<Login>, RegistryError> {
        self.logins_at(name.registry(), name.repository()).await
    }

    /// Returns the logins for a path on a host, which may be a mirror.
    pub(super) async fn logins_at(&self, host: &str, path: &str) -> Result<Vec<Login>, RegistryError> {
        let host = canonical(host);
        let mut found = self.find(&host, path);
        if let Some(helper) = self.helpers.find(&host) {
            let server = if host == DOCKER_NAMES[0] { DOCKER_SERVER } else { &host };
            match helper::ask(helper, server).await {
                Ok(login) => found.extend(login),
                // A helper for everything is often written and not installed, and most images need no login.
                Err(error) if found.is_empty() && self.helpers.by_host.contains_key(&host) => return Err(error),
                Err(error) => tracing::warn!(%error, "registry: going on without the credential helper"),
            }
        }
        Ok(found)
    }

    fn find(&self, host: &str, path: &str) -> Vec<Login> {
        let mut found: Vec<_> = self.logins.iter().filter(|(place, _)| place.covers(host, path)).collect();
        // Stable: of equals, the one that came first is tried first.
        found.sort_by_key(|(place, _)| (std::cmp::Reverse(place.path.len()), place.host.contains('*')));
        let mut logins: Vec<Login> = Vec::new();
        for (_, login) in found {
            if !logins.contains(login) {
                logins.push(login.clone());
            }
        }
        logins
    }
}

impl Helpers {
    fn find(&self, host: &str) -> Option<&str> {
        self.by_host.get(host).or(self.default.as_ref()).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// What a login is for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// With its port, if it has one.
    host: String,
    /// Without slashes at its ends; empty for the whole host.
    path: String,
}

impl Place {
    /// Reads `host`, `host/path`, `https://host/v1/` and the like.
    fn parse(text: &str) -> Option<Self> {
        let rest = text.trim();
        let rest = rest.strip_prefix("https://").or_else(|| rest.strip_prefix("http://")).unwrap_or(rest);
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_matches('/');
        let path = match path.split_once('/') {
            Some(("v1" | "v2", rest)) => rest,
            None if matches!(path, "v1" | "v2") => "",
            _ => path,
        };
        (!host.is_empty()).then(|| Self { host: canonical(host), path: path.to_owned() })
    }

    fn covers(&self, host: &str, path: &str) -> bool {
        let is_below = |rest: &str| rest.is_empty() || rest.starts_with('/') || self.path.is_empty();
        is_host_like(&self.host, host) && path.strip_prefix(&self.path).is_some_and(is_below)
    }
}

fn canonical(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    if DOCKER_NAMES.contains(&host.as_str()) { DOCKER_NAMES[0].to_owned() } else { host }
}

/// Compares hosts label by label; `*` stands for any letters within one.
fn is_host_like(pattern: &str, host: &str) -> bool {
    let (pattern, pattern_port) = split_port(pattern);
    let (host, port) = split_port(host);
    let (patterns, labels): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), host.split('.').collect());
    pattern_port == port
        && patterns.len() == labels.len()
        && patterns.iter().zip(&labels).all(|(pattern, label)| is_label_like(pattern, label))
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        // Otherwise the colon is one of an IPv6 address.
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    }
}

fn is_label_like(pattern: &str, label: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == label };
    let Some(mut label) = label.strip_prefix(first) else { return false };
    let (middles, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for middle in middles.split('*') {
        match label.find(middle) {
            Some(at) => label = &label[at + middle.len()..],
            None => return false,
        }
    }
    label.ends_with(last)
}

#[cfg(test)]
mod tests;
