//! The files of a volume: path, bytes and mode. Pure; what is not given is missing.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection},
};

use crate::env::{FieldError, PodFacts, ResourceError, metadata_field, resource_value};

/// What the API server sets where nothing is said.
const MODE_DEFAULT: i32 = 0o644;
/// The mode of a token in a pod with a file system group, which is given the right to read beside it.
const TOKEN_MODE_WITH_GROUP: i32 = 0o600;
/// The bits of a mode.
const MODE_BITS: u32 = 0o7777;

/// The files of a volume by their path in it.
pub type Files = BTreeMap<String, File>;

/// Tokens by volume and path, as [`super::References`] lists them.
pub type Tokens = BTreeMap<(String, String), String>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    pub mode: u32,
}

/// Why the content of a volume cannot be made; the texts are those that users know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    #[error("configmap \"{0}\" not found")]
    NoConfigMap(String),
    #[error("secret \"{0}\" not found")]
    NoSecret(String),
    #[error("configmap references non-existent config key: {0}")]
    NoConfigKey(String),
    #[error("references non-existent secret key: {0}")]
    NoSecretKey(String),
    #[error("failed to fetch token: none was issued for {0}")]
    NoToken(String),
    #[error("{0} projections are not supported on this node")]
    Unsupported(&'static str),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    Resource(#[from] ResourceError),
    #[error("[{}]", shown(.0))]
    Several(Vec<VolumeError>),
}

/// Returns the files of a volume, or None if its content does not come from the API.
///
/// # Errors
/// If something that is not optional is missing.
pub fn content(volume: &Volume, facts: &PodFacts<'_>, tokens: &Tokens) -> Result<Option<Files>, VolumeError> {
    if let Some(source) = &volume.config_map {
        let picks = Picks::new(source.items.as_deref(), source.default_mode, source.optional);
        return config_map(facts, &source.name, &picks).map(Some);
    }
    if let Some(source) = &volume.secret {
        let picks = Picks::new(source.items.as_deref(), source.default_mode, source.optional);
        return secret(facts, source.secret_name.as_deref().unwrap_or_default(), &picks).map(Some);
    }
    if let Some(source) = &volume.downward_api {
        return downward_api(facts, source.items.as_deref(), source.default_mode).map(Some);
    }
    let Some(projected) = &volume.projected else { return Ok(None) };
    let (mut files, mut errors) = (Files::new(), Vec::new());
    for source in projected.sources.iter().flatten() {
        let projection = Projection { volume: &volume.name, facts, tokens, mode: projected.default_mode };
        match projection.files(source) {
            Ok(more) => files.extend(more),
            Err(error) => errors.push(error),
        }
    }
    match errors.len() {
        0 => Ok(Some(files)),
        1 => Err(errors.remove(0)),
        _ => Err(VolumeError::Several(errors)),
    }
}

/// The message of the `FailedMount` event.
pub fn failed_mount(volume: &str, error: &dyn std::error::Error) -> String {
    format!("MountVolume.SetUp failed for volume \"{volume}\" : {error}")
}

/// Which keys become which files.
struct Picks<'a> {
    items: &'a [KeyToPath],
    mode: Option<i32>,
    is_optional: bool,
}

impl<'a> Picks<'a> {
    fn new(items: Option<&'a [KeyToPath]>, mode: Option<i32>, optional: Option<bool>) -> Self {
        Self { items: items.unwrap_or_default(), mode, is_optional: optional == Some(true) }
    }

    fn files(&self, data: BTreeMap<&str, &[u8]>, no_key: impl Fn(String) -> VolumeError) -> Result<Files, VolumeError> {
        if self.items.is_empty() {
            return Ok(data.into_iter().map(|(key, bytes)| (key.to_owned(), file(bytes, None, self.mode))).collect());
        }
        let mut files = Files::new();
        for item in self.items {
            match data.get(item.key.as_str()) {
                Some(bytes) => _ = files.insert(item.path.clone(), file(bytes, item.mode, self.mode)),
                None if self.is_optional => {}
                None => return Err(no_key(item.key.clone())),
            }
        }
        Ok(files)
    }
}

/// One source of a projected volume.
struct Projection<'a> {
    volume: &'a str,
    facts: &'a PodFacts<'a>,
    tokens: &'a Tokens,
    mode: Option<i32>,
}

impl Projection<'_> {
    fn files(&self, source: &VolumeProjection) -> Result<Files, VolumeError> {
        if let Some(source) = &source.secret {
            return secret(self.facts, &source.name, &Picks::new(source.items.as_deref(), self.mode, source.optional));
        }
        if let Some(source) = &source.config_map {
            let picks = Picks::new(source.items.as_deref(), self.mode, source.optional);
            return config_map(self.facts, &source.name, &picks);
        }
        if let Some(source) = &source.downward_api {
            return downward_api(self.facts, source.items.as_deref(), self.mode);
        }
        if let Some(source) = &source.service_account_token {
            return self.token(&source.path);
        }
        let kind = if source.cluster_trust_bundle.is_some() { "clusterTrustBundle" } else { "podCertificate" };
        Err(VolumeError::Unsupported(kind))
    }

    fn token(&self, path: &str) -> Result<Files, VolumeError> {
        let key = (self.volume.to_owned(), path.to_owned());
        let token = self.tokens.get(&key).ok_or_else(|| VolumeError::NoToken(path.to_owned()))?;
        let security = self.facts.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let has_group = security.is_some_and(|security| security.fs_group.is_some());
        let mode = if has_group { Some(TOKEN_MODE_WITH_GROUP) } else { self.mode };
        Ok(Files::from([(path.to_owned(), file(token.as_bytes(), None, mode))]))
    }
}

fn config_map(facts: &PodFacts<'_>, name: &str, picks: &Picks<'_>) -> Result<Files, VolumeError> {
    let map = facts.config_maps.get(name);
    if map.is_none() && !picks.is_optional {
        return Err(VolumeError::NoConfigMap(name.to_owned()));
    }
    let binary =
        map.iter().flat_map(|map| map.binary_data.iter().flatten()).map(|(key, value)| (key.as_str(), &*value.0));
    let text =
        map.iter().flat_map(|map| map.data.iter().flatten()).map(|(key, value)| (key.as_str(), value.as_bytes()));
    picks.files(binary.chain(text).collect(), VolumeError::NoConfigKey)
}

fn secret(facts: &PodFacts<'_>, name: &str, picks: &Picks<'_>) -> Result<Files, VolumeError> {
    let secret = facts.secrets.get(name);
    if secret.is_none() && !picks.is_optional {
        return Err(VolumeError::NoSecret(name.to_owned()));
    }
    let data = secret.iter().flat_map(|secret| secret.data.iter().flatten());
    picks.files(data.map(|(key, ByteString(value))| (key.as_str(), &**value)).collect(), VolumeError::NoSecretKey)
}

fn downward_api(
    facts: &PodFacts<'_>,
    items: Option<&[DownwardAPIVolumeFile]>,
    mode: Option<i32>,
) -> Result<Files, VolumeError> {
    let mut files = Files::new();
    for item in items.unwrap_or_default() {
        let value = if let Some(field) = &item.field_ref {
            metadata_field(facts.pod, &field.field_path)?
        } else if let Some(resource) = &item.resource_field_ref {
            resource_value(facts, resource, None)?
        } else {
            String::new()
        };
        files.insert(item.path.clone(), file(value.as_bytes(), item.mode, mode));
    }
    Ok(files)
}

fn file(bytes: &[u8], mode: Option<i32>, default: Option<i32>) -> File {
    let mode = mode.or(default).unwrap_or(MODE_DEFAULT);
    File { bytes: bytes.to_vec(), mode: u32::try_from(mode).unwrap_or_default() & MODE_BITS }
}

fn shown(errors: &[VolumeError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
