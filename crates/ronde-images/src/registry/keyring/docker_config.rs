//! Docker's configuration file as it is written; not a domain type.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, de::DeserializeOwned};

use super::{CONFIG_SIZE_MAX, Login};
use crate::registry::error::RegistryError;

/// Logins by the places that they are for. The older format is only this.
pub(super) type Entries = BTreeMap<String, Entry>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DockerConfig {
    #[serde(default)]
    pub auths: Entries,
    #[serde(default)]
    pub cred_helpers: BTreeMap<String, String>,
    pub creds_store: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    identitytoken: String,
    #[serde(default)]
    registrytoken: String,
}

/// Reads a configuration. Errors say where it is wrong, never what stands there.
pub(super) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, RegistryError> {
    if json.len() as u64 > CONFIG_SIZE_MAX {
        return Err(RegistryError::Credentials(format!("larger than {CONFIG_SIZE_MAX} bytes")));
    }
    serde_json::from_slice(json).map_err(|error| {
        let what = if error.is_data() { "wrong type of a value" } else { "no valid JSON" };
        RegistryError::Credentials(format!("{what} at line {} column {}", error.line(), error.column()))
    })
}

impl Entry {
    /// Returns the login; nothing if the entry is empty.
    pub(super) fn login(self) -> Result<Option<Login>, RegistryError> {
        if !self.identitytoken.is_empty() {
            return Ok(Some(Login::IdentityToken(self.identitytoken)));
        }
        if !self.registrytoken.is_empty() {
            return Ok(Some(Login::RegistryToken(self.registrytoken)));
        }
        if !self.auth.is_empty() {
            return decode(&self.auth).map(Some);
        }
        let is_empty = self.username.is_empty() && self.password.is_empty();
        Ok((!is_empty).then(|| Login::new(self.username, self.password)))
    }
}

fn decode(auth: &str) -> Result<Login, RegistryError> {
    let fault = || RegistryError::Credentials("`auth` must be `username:password` in base64".to_owned());
    let bytes = STANDARD.decode(auth.trim()).map_err(|_| fault())?;
    let text = String::from_utf8(bytes).map_err(|_| fault())?;
    // Docker pads with zeros what it once kept encrypted.
    let (username, password) = text.trim_end_matches('\0').split_once(':').ok_or_else(fault)?;
    Ok(Login::new(username, password))
}
