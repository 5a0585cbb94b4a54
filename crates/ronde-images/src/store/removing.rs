//! Removing from the store: names, and what no name and no pod leads to. Nobody adds meanwhile.
//!
//! Nothing may be taken into use while it is decided what goes. That takes no longer than some renames: folders leave
//! their places at once, and are removed after that.

use std::{
    collections::BTreeSet,
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::Path,
};

use fs_err as fs;

use super::{
    Image, Store, StoreError,
    adding::{make_folders, read_folder, sweep},
    index::Index,
    lock,
    sizes::{BLOCK, folder_size},
    temporary::Temporary,
};
use crate::{Digest, Reference};

/// Returns the manifests that pods were made from.
pub type InUse<'a> = &'a dyn Fn() -> io::Result<BTreeSet<Digest>>;

/// The right to remove, as long as it lives.
#[derive(Debug)]
pub struct Removing {
    store: Store,
    _lock: OwnedFd,
}

/// What was removed: names, and how many bytes of the disk are free by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    pub names: Vec<Reference>,
    pub bytes: u64,
}

impl Removing {
    /// Waits until nobody adds.
    pub(super) fn begin(store: &Store) -> Result<Self, StoreError> {
        let lock = Self::open_lock(store)?;
        lock::exclusive(&lock)?;
        Self::alone(store, lock)
    }

    /// Returns nothing if somebody adds.
    pub(super) fn try_begin(store: &Store) -> Result<Option<Self>, StoreError> {
        let lock = Self::open_lock(store)?;
        if lock::try_exclusive(&lock)? { Self::alone(store, lock).map(Some) } else { Ok(None) }
    }

    fn open_lock(store: &Store) -> Result<OwnedFd, StoreError> {
        fs::create_dir_all(&store.folder)?;
        Ok(lock::open(&store.folder.join("work.lock"))?)
    }

    fn alone(store: &Store, lock: OwnedFd) -> Result<Self, StoreError> {
        sweep(store)?;
        make_folders(store)?;
        Ok(Self { store: store.clone(), _lock: lock })
    }

    /// Removes a name, and what nothing else needs. `in_use` returns the manifests that pods were made from.
    ///
    /// # Errors
    /// If the name is unknown, or the last one of an image that is in use.
    pub fn remove(&self, name: &Reference, in_use: InUse<'_>) -> Result<Removed, StoreError> {
        let lock = lock::take(&self.store.folder.join("use.lock"))?;
        let used = in_use()?;
        Index::change(&self.store.folder, |index| {
            let digest = index.images.remove(name).ok_or_else(|| StoreError::Missing(name.familiar()))?;
            let is_last = !index.images.values().any(|other| *other == digest);
            if is_last && used.contains(&digest) { Err(StoreError::InUse(name.familiar())) } else { Ok(()) }
        })?;
        let gone = self.take_unneeded(&used)?;
        drop(lock);
        Ok(Removed { names: vec![name.clone()], bytes: gone.bytes })
    }

    /// Removes all images that nothing uses, and downloads that nobody continued.
    pub fn prune(&self, in_use: InUse<'_>) -> Result<Removed, StoreError> {
        let lock = lock::take(&self.store.folder.join("use.lock"))?;
        let used = in_use()?;
        let names = Index::change(&self.store.folder, |index| {
            let names: Vec<Reference> = index
                .images
                .iter()
                .filter(|(_, digest)| !used.contains(digest))
                .map(|(name, _)| name.clone())
                .collect();
            index.images.retain(|_, digest| used.contains(digest));
            Ok(names)
        })?;
        let mut gone = self.take_unneeded(&used)?;
        self.take_abandoned(&mut gone)?;
        drop(lock);
        Ok(Removed { names, bytes: gone.bytes })
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Removes what nothing leads to, and downloads that nobody continued.
    pub(super) fn drop_unneeded(&self, in_use: InUse<'_>) -> Result<Removed, StoreError> {
        let lock = lock::take(&self.store.folder.join("use.lock"))?;
        let mut gone = self.take_unneeded(&in_use()?)?;
        self.take_abandoned(&mut gone)?;
        drop(lock);
        Ok(Removed { names: Vec::new(), bytes: gone.bytes })
    }

    /// Removes the layers of an image as they are packed; it goes on to run. Returns how many bytes they had.
    pub(super) fn drop_packed(&self, image: &Image) -> Result<u64, StoreError> {
        let _lock = lock::take(&self.store.folder.join("use.lock"))?;
        let mut gone = Gone::default();
        for blob in image.manifest.layers.iter().map(|layer| self.store.blob(layer.digest)) {
            if blob.exists() {
                gone.take(&blob, &self.store.folder.join("tmp"))?;
            }
        }
        Ok(gone.bytes)
    }

    /// Takes away blobs and layers that no name and no pod leads to.
    fn take_unneeded(&self, used: &BTreeSet<Digest>) -> Result<Gone, StoreError> {
        let index = self.store.index()?;
        let (mut manifests, mut blobs, mut layers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for digest in index.images.values().chain(used) {
            if !self.store.blob(*digest).exists() {
                continue;
            }
            let image = self.store.image(&index, *digest)?;
            manifests.insert(digest.hex());
            blobs.insert(digest.hex());
            blobs.extend(image.manifest.descriptors().map(|part| part.digest.hex()));
            layers.extend(image.config.rootfs.diff_ids.iter().map(Digest::hex));
        }
        let mut gone = Gone::default();
        self.take_others("layers", &layers, &mut gone)?;
        self.take_others("blobs", &blobs, &mut gone)?;
        self.take_others("sizes", &layers, &mut gone)?;
        self.take_others("used", &manifests, &mut gone)?;
        Ok(gone)
    }

    /// Takes away what pulls that did not end left behind.
    fn take_abandoned(&self, gone: &mut Gone) -> Result<(), StoreError> {
        self.take_others("downloads", &BTreeSet::new(), gone)?;
        self.take_others("unsynced", &BTreeSet::new(), gone)
    }

    fn take_others(&self, folder: &str, keep: &BTreeSet<String>, gone: &mut Gone) -> Result<(), StoreError> {
        for path in read_folder(&self.store.folder.join(folder))? {
            let name = path.file_name().and_then(|name| name.to_str());
            if !name.is_some_and(|name| keep.contains(name)) {
                gone.take(&path, &self.store.folder.join("tmp"))?;
            }
        }
        Ok(())
    }
}

/// What left its place, and is removed when this is dropped.
#[derive(Debug, Default)]
struct Gone {
    bytes: u64,
    folders: Vec<Temporary>,
}

impl Gone {
    fn take(&mut self, path: &Path, tmp: &Path) -> Result<(), StoreError> {
        let meta = fs::symlink_metadata(path)?;
        if meta.is_dir() {
            self.bytes += folder_size(path, &mut BTreeSet::new())?;
            // Half a layer must not keep its name.
            self.folders.push(Temporary::moved(tmp, path)?);
        } else {
            self.bytes += meta.blocks() * BLOCK;
            fs::remove_file(path)?;
        }
        Ok(())
    }
}
