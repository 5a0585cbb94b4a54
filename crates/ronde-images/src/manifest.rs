//! The documents of an image: manifest, index of platforms, and configuration, of OCI and of Docker (v2, schema 2).
//!
//! Both families say the same with other media types, and are read by the same types. Unknown fields are passed over;
//! what we rely on is checked here once: sizes, numbers of layers, and media types. The bytes must have been verified
//! before: nothing here looks at digests of documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// As registries accept them: distribution and containerd stop at 4 MiB.
pub const DOCUMENT_SIZE_MAX: u64 = 4 << 20;
/// Overlay mounts take 500 lowers at most on current kernels; Docker builds 127 layers.
pub const LAYERS_MAX: usize = 500;
/// Real indexes have about 20 entries: platforms, each with an attestation.
pub const INDEX_ENTRIES_MAX: usize = 1000;
/// 1 TiB: more than any disk of one machine would spare for a layer.
pub const LAYER_SIZE_MAX: u64 = 1 << 40;

pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
/// The media types of manifests that we ask registries for, in the order of preference.
pub const ACCEPTED: [&str; 4] = [OCI_INDEX, DOCKER_INDEX, OCI_MANIFEST, DOCKER_MANIFEST];

/// What can be wrong with a document.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what} is larger than {DOCUMENT_SIZE_MAX} bytes")]
    TooLarge { what: &'static str },
    #[error("{what} is not valid JSON for its kind")]
    Parse { what: &'static str, source: serde_json::Error },
    #[error("unsupported media type `{0}`")]
    MediaType(String),
    #[error("the image is in Docker's format of 2015 (schema 1), which is not supported")]
    Schema1,
    #[error("{what} has more than {max} entries")]
    TooMany { what: &'static str, max: usize },
    #[error("the manifest says that {digest} has {size} bytes, and {max} is the most allowed")]
    Size { digest: Digest, size: u64, max: u64 },
    #[error("the image is not for {wanted}; it is for {found}")]
    Platform { wanted: Platform, found: String },
    #[error("number of layers: {layers} in the manifest, {diff_ids} in the image configuration")]
    Layers { layers: usize, diff_ids: usize },
}

/// What a document of a registry turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    Manifest(Manifest),
    Index(Index),
}

impl Document {
    /// Reads a manifest or an index. The media type of the answer decides where the document does not say its own.
    pub fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Self, Error> {
        let said: Kind = parse("the manifest", bytes)?;
        if said.schema_version == 1 {
            return Err(Error::Schema1);
        }
        let own_type = said.media_type.as_deref().filter(|own| !own.is_empty());
        match own_type.or(content_type).map(essence) {
            Some(OCI_INDEX | DOCKER_INDEX) => Ok(Self::Index(Index::parse(bytes)?)),
            Some(OCI_MANIFEST | DOCKER_MANIFEST) => Ok(Self::Manifest(Manifest::parse(bytes)?)),
            // Archives of older tools say nothing, and some registries answer with `application/json`.
            None | Some("application/json" | "application/octet-stream" | "text/plain") => {
                if said.manifests.is_some() {
                    Ok(Self::Index(Index::parse(bytes)?))
                } else {
                    Ok(Self::Manifest(Manifest::parse(bytes)?))
                }
            }
            Some(other) => Err(Error::MediaType(other.to_owned())),
        }
    }
}

/// What tells one kind of document from another.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    #[serde(default)]
    schema_version: u32,
    media_type: Option<String>,
    manifests: Option<serde::de::IgnoredAny>,
}

/// Points to content: what it is, what it is called, and how large it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    /// Where else the content may be had; for layers that registries may not give out themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
}

/// How the bytes of a layer are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Descriptor {
    /// Returns how the layer that this points to is packed, by its media type.
    ///
    /// # Errors
    ///
    /// If this is no layer of a root filesystem: other artefacts, encrypted layers.
    pub fn compression(&self) -> Result<Compression, Error> {
        match essence(&self.media_type) {
            "application/vnd.oci.image.layer.v1.tar"
            | "application/vnd.oci.image.layer.nondistributable.v1.tar"
            | "application/vnd.docker.image.rootfs.diff.tar" => Ok(Compression::None),
            "application/vnd.oci.image.layer.v1.tar+gzip"
            | "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"
            | "application/vnd.docker.image.rootfs.diff.tar.gzip"
            | "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip" => Ok(Compression::Gzip),
            "application/vnd.oci.image.layer.v1.tar+zstd"
            | "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd"
            | "application/vnd.docker.image.rootfs.diff.tar.zstd" => Ok(Compression::Zstd),
            other => Err(Error::MediaType(other.to_owned())),
        }
    }

    fn check_size(&self, max: u64) -> Result<(), Error> {
        if self.size <= max { Ok(()) } else { Err(Error::Size { digest: self.digest, size: self.size, max }) }
    }
}

/// An image for one platform: its configuration and its layers, the lowest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub config: Descriptor,
    #[serde(default)]
    pub layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Manifest {
    /// Reads a manifest and checks everything that is relied on later.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let manifest: Self = parse("the manifest", bytes)?;
        if manifest.layers.len() > LAYERS_MAX {
            return Err(Error::TooMany { what: "the list of layers", max: LAYERS_MAX });
        }
        manifest.config.check_size(DOCUMENT_SIZE_MAX)?;
        for layer in &manifest.layers {
            layer.check_size(LAYER_SIZE_MAX)?;
            layer.compression()?;
        }
        Ok(manifest)
    }

    /// Returns everything that the image needs besides this manifest: the configuration first, then the layers.
    pub fn descriptors(&self) -> impl Iterator<Item = &Descriptor> {
        std::iter::once(&self.config).chain(&self.layers)
    }

    /// Returns the size of all layers as they are packed.
    pub fn layers_size(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.size))
    }
}

/// An image for several platforms: a manifest for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(default)]
    pub manifests: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Index {
    /// Reads an index.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let index: Self = parse("the image index", bytes)?;
        if index.manifests.len() > INDEX_ENTRIES_MAX {
            return Err(Error::TooMany { what: "the image index", max: INDEX_ENTRIES_MAX });
        }
        index.manifests.iter().try_for_each(|manifest| manifest.check_size(DOCUMENT_SIZE_MAX))?;
        Ok(index)
    }

    /// Returns the manifest for a platform: the first that fits best.
    ///
    /// An entry that says no platform fits if nothing else does, because archives often leave it out.
    pub fn choose(&self, wanted: &Platform) -> Result<&Descriptor, Error> {
        let ranked = self.manifests.iter().filter_map(|manifest| Some((rank(manifest, wanted)?, manifest)));
        // `max_by_key` would return the last of equals.
        let best = ranked.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, manifest)| manifest).ok_or_else(|| self.no_platform(wanted))
    }

    fn no_platform(&self, wanted: &Platform) -> Error {
        let named = self.manifests.iter().filter_map(|manifest| manifest.platform.as_ref());
        let mut found: Vec<String> = named.filter(|platform| !platform.is_unknown()).map(Platform::to_string).collect();
        found.sort();
        found.dedup();
        let found = if found.is_empty() { "no platform at all".to_owned() } else { found.join(", ") };
        Error::Platform { wanted: wanted.clone(), found }
    }
}

/// Tells how well an entry of an index fits a platform, if it does.
fn rank(entry: &Descriptor, wanted: &Platform) -> Option<u8> {
    if !matches!(essence(&entry.media_type), OCI_MANIFEST | DOCKER_MANIFEST | "") {
        return None;
    }
    match &entry.platform {
        None => Some(0),
        Some(offered) => wanted.fit(offered),
    }
}

/// An operating system and a processor, as in `linux/arm64/v8`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    /// Returns the platform of this machine.
    pub fn of_this_machine() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", None),
            "aarch64" => ("arm64", Some("v8")),
            "x86" => ("386", None),
            "powerpc64" => ("ppc64le", None),
            "loongarch64" => ("loong64", None),
            "arm" => ("arm", Some("v7")),
            other => (other, None),
        };
        Self { architecture: architecture.to_owned(), os: "linux".to_owned(), variant: variant.map(str::to_owned) }
    }

    /// Tells whether an image for the other platform runs on this one.
    pub fn runs(&self, offered: &Self) -> bool {
        self.fit(offered).is_some()
    }

    /// Tells how well the other platform fits: the same variant is better than a lower or an unnamed one.
    fn fit(&self, offered: &Self) -> Option<u8> {
        if self.os != offered.os || self.architecture != offered.architecture {
            return None;
        }
        match (self.variant_number(), offered.variant_number()) {
            (wanted, offered) if wanted == offered => Some(u8::MAX),
            (_, None) => Some(1),
            (Some(wanted), Some(offered)) if offered < wanted => Some(1 + offered),
            _ => None,
        }
    }

    /// `v8` is what `arm64` means, and `v1` what `amd64` means.
    fn variant_number(&self) -> Option<u8> {
        let number = self.variant.as_deref().and_then(|variant| variant.strip_prefix('v')?.parse().ok());
        match self.architecture.as_str() {
            "arm64" => Some(number.unwrap_or(8)),
            "amd64" => Some(number.unwrap_or(1)),
            _ => number,
        }
    }

    /// Attestations of builders are in indexes under this name.
    fn is_unknown(&self) -> bool {
        self.os == "unknown"
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

/// What an image says about itself: for which platform it is, how its program is started, and its layers unpacked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub config: Execution,
    #[serde(default)]
    pub rootfs: RootFs,
}

/// How the program of an image is started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Execution {
    #[serde(default, deserialize_with = "null_is_default")]
    pub entrypoint: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub cmd: Vec<String>,
    /// `NAME=value`, in the order of the image.
    #[serde(default, deserialize_with = "null_is_default")]
    pub env: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub working_dir: String,
    /// A name or number, perhaps with a group: `app`, `1000`, `app:staff`, `1000:1000`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub user: String,
    /// Paths.
    #[serde(default, with = "keys")]
    pub volumes: BTreeSet<String>,
    /// Ports with their protocols, as in `80/tcp`.
    #[serde(default, with = "keys")]
    pub exposed_ports: BTreeSet<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub stop_signal: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub labels: BTreeMap<String, String>,
}

/// The digests of the layers as they are unpacked, the lowest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFs {
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub diff_ids: Vec<Digest>,
}

impl ImageConfig {
    /// Reads a configuration.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        parse("the image configuration", bytes)
    }

    /// Reads the configuration of an image and checks that it belongs to its layers and to a platform.
    pub fn parse_for(bytes: &[u8], manifest: &Manifest, wanted: &Platform) -> Result<Self, Error> {
        let config = Self::parse(bytes)?;
        let (layers, diff_ids) = (manifest.layers.len(), config.rootfs.diff_ids.len());
        if layers != diff_ids {
            return Err(Error::Layers { layers, diff_ids });
        }
        // Hand-made images often say nothing.
        if !config.architecture.is_empty() && !wanted.runs(&config.platform()) {
            return Err(Error::Platform { wanted: wanted.clone(), found: config.platform().to_string() });
        }
        Ok(config)
    }

    /// Returns the platform that the image is for.
    pub fn platform(&self) -> Platform {
        let os = if self.os.is_empty() { "linux" } else { &self.os };
        Platform { architecture: self.architecture.clone(), os: os.to_owned(), variant: self.variant.clone() }
    }
}

/// Returns a media type without its parameters.
fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

fn parse<'a, T: Deserialize<'a>>(what: &'static str, bytes: &'a [u8]) -> Result<T, Error> {
    if bytes.len() as u64 > DOCUMENT_SIZE_MAX {
        return Err(Error::TooLarge { what });
    }
    serde_json::from_slice(bytes).map_err(|source| Error::Parse { what, source })
}

/// Go writes empty lists and maps as `null`.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Sets that are written as maps to empty objects.
mod keys {
    use std::collections::{BTreeMap, BTreeSet};

    use serde::{Deserialize as _, Deserializer, Serializer, de::IgnoredAny};

    pub fn serialize<S: Serializer>(set: &BTreeSet<String>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(set.iter().map(|key| (key, serde_json::Map::new())))
    }

    #[expect(clippy::zero_sized_map_values, reason = "the keys are read from a map")]
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
        let map = Option::<BTreeMap<String, IgnoredAny>>::deserialize(deserializer)?;
        Ok(map.unwrap_or_default().into_keys().collect())
    }
}

#[cfg(test)]
mod tests;
