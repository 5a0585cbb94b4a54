//! The images of this machine: blobs by their digests, layers unpacked once by their diffIDs, and names.
//!
//! A folder in the data directory, used by the `ronde image` verbs and the node at the same time. Everything gets its
//! name when it is whole and on disk; what a killed process left is in `tmp`, which is swept by the next one that is
//! alone, and in `downloads`, where the next one that wants it goes on.
//!
//! Locks of the kernel, taken in this order: `work.lock`, shared by all that add ([`Adding`]) and held alone by who removes
//! ([`Removing`]); a file in `downloads` or `locks` by who fetches or unpacks that content; `use.lock`, shared by whoever
//! takes an image into use and held alone while something is removed, so that nothing is removed between choosing and
//! using it; `index.lock` by who changes the names.

mod adding;
mod ahead;
mod collect;
mod download;
mod flatten;
mod index;
mod layer;
mod lock;
mod progress;
mod removing;
mod sizes;
mod temporary;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    io::{self, Read as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use fs_err as fs;
use rustix::fs::{FileType, Mode, OFlags};

use self::index::Index;
pub use self::{
    adding::Adding,
    download::Download,
    flatten::flatten,
    progress::{Progress, Quiet},
    removing::{InUse, Removed, Removing},
    sizes::Size,
};
use crate::{Digest, ImageConfig, Manifest, Reference, digest, inside::open_inside, manifest, unpack::UnpackError};

/// A passwd file with ten thousand users has less.
const SMALL_FILE_MAX: u64 = 1 << 20;

/// Why the store cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot use the image store: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Digest(#[from] digest::Error),
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    #[error("cannot unpack layer {diff_id}: {source}")]
    Unpack { diff_id: Digest, source: UnpackError },
    #[error("the list of images cannot be read: {0}")]
    Index(serde_json::Error),
    #[error("layer {0} is not unpacked")]
    Layer(Digest),
    #[error("image `{0}` is in use by a pod")]
    InUse(String),
    #[error("there is no image `{0}`")]
    Missing(String),
}

impl StoreError {
    /// Tells whether the disk is full.
    pub fn is_out_of_room(&self) -> bool {
        match self {
            Self::Io(error) | Self::Unpack { source: UnpackError::Write { source: error, .. }, .. } => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

/// The store in a folder. Nothing is made until something is put in.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// An image that is stored whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The names that it has here.
    pub names: Vec<Reference>,
    pub digest: Digest,
    pub manifest: Manifest,
    pub config: ImageConfig,
    /// The unpacked layers, the lowest first.
    pub layers: Vec<PathBuf>,
}

impl Image {
    /// The size of its content as it is packed.
    pub fn size(&self) -> u64 {
        self.manifest.descriptors().fold(0, |sum, part| sum.saturating_add(part.size))
    }
}

impl Image {
    /// Reads a small file of the image, such as `etc/passwd`; nothing if it is not there.
    pub fn read_file(&self, path: &str) -> Option<String> {
        self.layers.iter().rev().find_map(|layer| read_small(layer, path)).flatten()
    }
}

/// Reads a file of one layer: nothing if the layer does not say, and an empty answer if it hides the file.
#[expect(clippy::option_option, reason = "a layer may say nothing, or that there is nothing")]
fn read_small(layer: &Path, path: &str) -> Option<Option<String>> {
    let root = rustix::fs::open(layer, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // Opening a device could have an effect, so it is looked at first.
    let found = open_inside(&root, path, OFlags::PATH).ok()?;
    if !FileType::from_raw_mode(rustix::fs::fstat(&found).ok()?.st_mode).is_file() {
        return Some(None);
    }
    let file = open_inside(&root, path, OFlags::RDONLY).ok()?;
    let mut bytes = Vec::new();
    fs::File::from_parts(file.into(), path).take(SMALL_FILE_MAX).read_to_end(&mut bytes).ok()?;
    Some(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Keeps what is stored from being removed.
#[derive(Debug)]
pub struct Use {
    _lock: Option<OwnedFd>,
}

impl Store {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the image of a name. A name with a digest is the image with that content.
    pub fn find(&self, name: &Reference) -> Result<Option<Image>, StoreError> {
        let index = self.index()?;
        let digest = name.digest().filter(|digest| index.images.values().any(|known| known == digest));
        // A digest in a name may also be that of an index of several platforms.
        let digest = digest.or_else(|| index.images.get(name).copied());
        digest.map(|digest| self.image(&index, digest)).transpose()
    }

    /// Returns the image with a manifest, also if it has no name any more.
    pub fn get(&self, digest: Digest) -> Result<Image, StoreError> {
        self.image(&self.index()?, digest)
    }

    /// Returns all images, by their first names.
    pub fn list(&self) -> Result<Vec<Image>, StoreError> {
        let index = self.index()?;
        let digests: BTreeSet<Digest> = index.images.values().copied().collect();
        let mut images = digests.into_iter().map(|one| self.image(&index, one)).collect::<Result<Vec<_>, _>>()?;
        images.sort_by(|one, other| one.names.cmp(&other.names));
        Ok(images)
    }

    /// Keeps everything in place until the answer is dropped.
    pub fn hold(&self) -> Result<Use, StoreError> {
        if !self.folder.exists() {
            return Ok(Use { _lock: None });
        }
        let file = lock::open(&self.folder.join("use.lock"))?;
        lock::shared(&file)?;
        Ok(Use { _lock: Some(file) })
    }

    /// Begins to add images. Waits while something is removed.
    pub fn adding(&self) -> Result<Adding, StoreError> {
        Adding::begin(self)
    }

    /// Begins to remove. Waits until nobody adds: who still holds an [`Adding`] would wait for itself.
    pub fn removing(&self) -> Result<Removing, StoreError> {
        Removing::begin(self)
    }

    /// Begins to remove, unless somebody adds at this moment.
    pub fn try_removing(&self) -> Result<Option<Removing>, StoreError> {
        Removing::try_begin(self)
    }

    fn index(&self) -> Result<Index, StoreError> {
        Index::read(&self.folder)
    }

    pub(crate) fn blob(&self, digest: Digest) -> PathBuf {
        self.folder.join("blobs").join(digest.hex())
    }

    pub(crate) fn layer(&self, diff_id: Digest) -> PathBuf {
        self.folder.join("layers").join(diff_id.hex())
    }

    fn image(&self, index: &Index, digest: Digest) -> Result<Image, StoreError> {
        let names = index.images.iter().filter(|(_, known)| **known == digest).map(|(name, _)| name.clone()).collect();
        let manifest = Manifest::parse(&fs::read(self.blob(digest))?)?;
        let config = ImageConfig::parse(&fs::read(self.blob(manifest.config.digest))?)?;
        let layers = config.rootfs.diff_ids.iter().map(|diff_id| self.layer(*diff_id)).collect();
        Ok(Image { names, digest, manifest, config, layers })
    }
}
