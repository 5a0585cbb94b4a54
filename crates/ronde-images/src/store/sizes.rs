//! How much of the disk images take. What several images have counts for each of them, and is told apart.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use fs_err as fs;

use super::{Image, Store, StoreError};
use crate::Digest;

/// What the kernel counts in, whatever the file system does.
pub(super) const BLOCK: u64 = 512;

/// The bytes that an image takes on disk: its unpacked layers, and its blobs as far as they are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    pub total: u64,
    /// What other images have too.
    pub shared: u64,
    /// What would be free without this image.
    pub own: u64,
}

/// One thing on disk: a blob by its digest, or a layer by its diffID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Blob(Digest),
    Layer(Digest),
}

/// Returns everything that an image has, each once.
pub(super) fn parts(image: &Image) -> BTreeSet<Part> {
    let blobs = image.manifest.descriptors().map(|part| Part::Blob(part.digest));
    let layers = image.config.rootfs.diff_ids.iter().map(|diff_id| Part::Layer(*diff_id));
    blobs.chain(layers).chain([Part::Blob(image.digest)]).collect()
}

impl Store {
    /// Returns the sizes of all images that have names, by their manifests.
    pub fn sizes(&self) -> Result<BTreeMap<Digest, Size>, StoreError> {
        let images: Vec<_> = self.list()?.iter().map(|image| (image.digest, parts(image))).collect();
        let mut users: BTreeMap<Part, u32> = BTreeMap::new();
        for part in images.iter().flat_map(|(_, parts)| parts) {
            *users.entry(*part).or_default() += 1;
        }
        let mut sizes = BTreeMap::new();
        for (digest, parts) in &images {
            let mut size = Size::default();
            for part in parts {
                let bytes = self.part_size(*part)?;
                size.total += bytes;
                if users[part] > 1 { size.shared += bytes } else { size.own += bytes }
            }
            sizes.insert(*digest, size);
        }
        Ok(sizes)
    }

    pub(super) fn part_size(&self, part: Part) -> io::Result<u64> {
        match part {
            Part::Blob(digest) => match fs::metadata(self.blob(digest)) {
                Ok(meta) => Ok(meta.blocks() * BLOCK),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
                Err(error) => Err(error),
            },
            Part::Layer(diff_id) => self.layer_size(diff_id),
        }
    }

    /// A layer never changes, so its size is written down.
    fn layer_size(&self, diff_id: Digest) -> io::Result<u64> {
        let known = self.folder.join("sizes").join(diff_id.hex());
        if let Some(size) = fs::read_to_string(&known).ok().and_then(|text| text.parse().ok()) {
            return Ok(size);
        }
        let size = folder_size(&self.layer(diff_id), &mut BTreeSet::new())?;
        if size > 0 {
            // Who may only read counts again.
            let _ = fs::create_dir_all(self.folder.join("sizes")).and_then(|()| fs::write(&known, size.to_string()));
        }
        Ok(size)
    }
}

/// Returns what a folder takes on disk; nothing if it is not there. Files with several names count once.
pub(super) fn folder_size(path: &Path, seen: &mut BTreeSet<u64>) -> io::Result<u64> {
    let mut size = 0;
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.nlink() < 2 || meta.is_dir() || seen.insert(meta.ino()) {
            size += meta.blocks() * BLOCK;
        }
        if meta.is_dir() {
            size += folder_size(&entry.path(), seen)?;
        }
    }
    Ok(size)
}
