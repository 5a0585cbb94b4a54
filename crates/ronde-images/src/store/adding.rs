//! Putting images into the store: blobs, layers, and at last names. Many may do so at once.
//!
//! Content gets its place when it is whole, checked and on disk. Unpacked layers are the exception that makes pulls
//! fast: they are put on disk together, when their image gets its names. Until then they are in `unsynced`, under the
//! boot of the machine that wrote them: what was there before a power cut may have holes, and is removed.

use std::{
    io::{self, Read, Write as _},
    os::fd::OwnedFd,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::ScopedJoinHandle,
};

use fs_err as fs;

use super::{
    Store, StoreError,
    index::Index,
    layer, lock,
    progress::Progress,
    temporary::{Temporary, remove_folder, sync_folder},
};
use crate::{
    Descriptor, Digest, ImageConfig, Manifest, Reference,
    digest::Hasher,
    manifest::{LAYER_SIZE_MAX, Platform},
};

/// What is read at a time.
const CHUNK: usize = 1 << 17;
/// More would wait for the disk, and each takes some memory.
const LAYERS_AT_ONCE: usize = 3;
/// Another for each time the machine was started.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The right to add to the store, as long as a copy of it lives. Nothing is removed meanwhile.
#[derive(Debug, Clone)]
pub struct Adding {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    /// Where unpacked layers wait; nothing if the machine does not tell its boots apart.
    unsynced: Option<PathBuf>,
    _lock: OwnedFd,
}

impl Adding {
    pub(super) fn begin(store: &Store) -> Result<Self, StoreError> {
        fs::create_dir_all(&store.folder)?;
        let file = lock::open(&store.folder.join("work.lock"))?;
        let unsynced = unsynced(store);
        if lock::try_exclusive(&file)? {
            sweep(store)?;
        }
        lock::shared(&file)?;
        make_folders(store)?;
        if let Some(place) = &unsynced {
            fs::create_dir_all(place)?;
        }
        Ok(Self { inner: Arc::new(Inner { store: store.clone(), unsynced, _lock: file }) })
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.inner.store.folder.join(name)
    }

    /// Makes a folder for something that is not to stay.
    pub(crate) fn temporary_folder(&self) -> io::Result<Temporary> {
        Temporary::folder(&self.path("tmp"))
    }

    /// Stores content under its digest, which has to be the expected one if there is one.
    pub fn put_blob(&self, reader: &mut dyn Read, expected: Option<Digest>) -> Result<(Digest, u64), StoreError> {
        let (temporary, mut file) = Temporary::file(&self.path("tmp"))?;
        let (mut hasher, mut size) = (Hasher::new(), 0_u64);
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = reader.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            size += read as u64;
            if size > LAYER_SIZE_MAX {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a blob is larger than 1 TiB").into());
            }
            hasher.update(&buffer[..read]);
            file.write_all(&buffer[..read])?;
        }
        let digest = hasher.finish();
        if let Some(expected) = expected.filter(|expected| *expected != digest) {
            return Err(crate::digest::Error::Mismatch { expected, actual: digest }.into());
        }
        file.sync_all()?;
        temporary.rename(&self.store().blob(digest))?;
        sync_folder(&self.path("blobs"))?;
        Ok((digest, size))
    }

    /// Whether content is here.
    pub fn has_blob(&self, digest: Digest) -> bool {
        self.store().blob(digest).exists()
    }

    /// Whether a layer is unpacked: then its blob is not needed.
    pub fn has_layer(&self, diff_id: Digest) -> bool {
        // In this order: it may get its place at this moment.
        self.unsynced(diff_id).is_some_and(|place| place.exists()) || self.store().layer(diff_id).exists()
    }

    fn unsynced(&self, diff_id: Digest) -> Option<PathBuf> {
        Some(self.inner.unsynced.as_ref()?.join(diff_id.hex()))
    }

    /// Unpacks one layer whose blob is here, unless it is unpacked already. Blocks; several threads may unpack several
    /// layers at once, and of those who unpack the same one only the first does.
    pub fn unpack(&self, layer: &Descriptor, diff_id: Digest, progress: &dyn Progress) -> Result<(), StoreError> {
        // Not two of them, also of two processes.
        let _lock = lock::take(&self.path("locks").join(diff_id.hex()))?;
        if !self.has_layer(diff_id) {
            let temporary = self.temporary_folder()?;
            layer::unpack(&self.store().blob(layer.digest), layer, diff_id, temporary.path(), progress)?;
            match self.unsynced(diff_id) {
                Some(place) => temporary.rename(&place)?,
                None => self.settle(&[(temporary.path().to_owned(), self.store().layer(diff_id))])?,
            }
        }
        progress.done(layer);
        Ok(())
    }

    /// Unpacks all layers of an image whose blobs are here.
    pub fn unpack_all(&self, manifest: Digest, progress: &dyn Progress) -> Result<(), StoreError> {
        let (manifest, config) = self.documents(manifest)?;
        let layers = Mutex::new(manifest.layers.iter().zip(&config.rootfs.diff_ids));
        let take_next = || layers.lock().unwrap_or_else(PoisonError::into_inner).next();
        let unpack_some = || {
            while let Some((layer, diff_id)) = take_next() {
                self.unpack(layer, *diff_id, progress)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..LAYERS_AT_ONCE).map(|_| scope.spawn(unpack_some)).collect();
            let join = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            // All end before the first error is returned.
            let ended: Vec<Result<(), StoreError>> = threads.into_iter().map(join).collect();
            ended.into_iter().collect()
        })
    }

    /// Checks that everything is here, and gives the image its names. Durable when it returns.
    ///
    /// # Errors
    /// If a document of the image is missing or is not for this machine, or a layer is not unpacked.
    pub fn name(&self, manifest: Digest, names: &[Reference]) -> Result<(), StoreError> {
        let (_, config) = self.documents(manifest)?;
        let missing = config.rootfs.diff_ids.iter().find(|diff_id| !self.has_layer(**diff_id));
        if let Some(diff_id) = missing {
            return Err(StoreError::Layer(*diff_id));
        }
        let waiting: Vec<_> = config
            .rootfs
            .diff_ids
            .iter()
            .filter(|diff_id| !self.store().layer(**diff_id).exists())
            .filter_map(|diff_id| Some((self.unsynced(*diff_id)?, self.store().layer(*diff_id))))
            .collect();
        self.settle(&waiting)?;
        Index::change(&self.store().folder, |index| {
            index.images.extend(names.iter().map(|name| (name.clone(), manifest)));
            Ok(())
        })?;
        self.store().touch(manifest)
    }

    /// Reads what an image says about itself.
    pub(crate) fn documents(&self, manifest: Digest) -> Result<(Manifest, ImageConfig), StoreError> {
        let manifest = Manifest::parse(&fs::read(self.store().blob(manifest))?)?;
        let config = fs::read(self.store().blob(manifest.config.digest))?;
        let config = ImageConfig::parse_for(&config, &manifest, &Platform::of_this_machine())?;
        Ok((manifest, config))
    }

    /// Puts unpacked layers on disk, and only then into their places.
    fn settle(&self, waiting: &[(PathBuf, PathBuf)]) -> Result<(), StoreError> {
        if !waiting.is_empty() {
            // All files at once, rather than each.
            rustix::fs::syncfs(fs::File::open(&self.store().folder)?).map_err(io::Error::from)?;
        }
        for (from, to) in waiting {
            match fs::rename(from, to) {
                // An image twice has the layer, or somebody else names an image with it at this moment.
                Err(_) if to.exists() => {}
                other => other?,
            }
        }
        // Also for the layers that somebody else has just put there.
        Ok(sync_folder(&self.path("layers"))?)
    }
}

pub(super) fn make_folders(store: &Store) -> io::Result<()> {
    for folder in ["tmp", "blobs", "layers", "downloads", "locks", "unsynced"] {
        fs::create_dir_all(store.folder.join(folder))?;
    }
    Ok(())
}

/// Removes what killed processes left and nobody can use. Only for who is alone with the store.
pub(super) fn sweep(store: &Store) -> io::Result<()> {
    for folder in ["tmp", "locks"] {
        remove_folder(&store.folder.join(folder))?;
    }
    let keep = unsynced(store);
    for boot in read_folder(&store.folder.join("unsynced"))? {
        if Some(&boot) != keep.as_ref() {
            remove_folder(&boot)?;
        }
    }
    Ok(())
}

/// Returns the paths in a folder; none if it is not there.
pub(super) fn read_folder(path: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn unsynced(store: &Store) -> Option<PathBuf> {
    let boot = fs::read_to_string(BOOT_ID).ok()?;
    let boot = boot.trim();
    let is_name = !boot.is_empty() && boot.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_name.then(|| store.folder.join("unsynced").join(boot))
}
