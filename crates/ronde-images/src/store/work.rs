//! Changes of the store: putting blobs, layers and names in, and removing what nobody needs.

use std::{
    collections::BTreeSet,
    io::{self, Read, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use fs_err as fs;
use rustix::fs::FlockOperation;

use super::{Store, StoreError};
use crate::{
    Descriptor, Digest, ImageConfig, Manifest, Reference,
    digest::Hasher,
    manifest::{Compression, LAYER_SIZE_MAX, Platform},
    unpack::{self, Options, UnpackError},
};

/// What is read at a time.
const CHUNK: usize = 1 << 16;

/// The right to change the store, as long as it lives.
#[derive(Debug)]
pub struct Work {
    store: Store,
    made: u64,
    _lock: OwnedFd,
}

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    pub names: Vec<Reference>,
    pub bytes: u64,
}

impl Work {
    pub(super) fn begin(store: Store, lock: OwnedFd) -> Result<Self, StoreError> {
        let temporary = store.folder.join("tmp");
        remove_folder(&temporary)?;
        for folder in ["tmp", "blobs", "layers"] {
            fs::create_dir_all(store.folder.join(folder))?;
        }
        Ok(Self { store, made: 0, _lock: lock })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns a new place for something unfinished.
    pub(crate) fn temporary(&mut self) -> PathBuf {
        self.made += 1;
        self.store.folder.join("tmp").join(self.made.to_string())
    }

    /// Stores content under its digest, which has to be the expected one if there is one.
    pub fn put_blob(&mut self, reader: &mut dyn Read, expected: Option<Digest>) -> Result<(Digest, u64), StoreError> {
        let temporary = self.temporary();
        let mut file = fs::File::create(&temporary)?;
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
        fs::rename(&temporary, self.store.blob(digest))?;
        sync_folder(&self.store.folder.join("blobs"))?;
        Ok((digest, size))
    }

    /// Whether content is here.
    pub fn has_blob(&self, digest: Digest) -> bool {
        self.store.blob(digest).exists()
    }

    /// Unpacks the layers of an image whose blobs are here, and gives it its names.
    pub fn finish(&mut self, manifest_digest: Digest, names: &[Reference]) -> Result<(), StoreError> {
        let manifest = Manifest::parse(&fs::read(self.store.blob(manifest_digest))?)?;
        let config = fs::read(self.store.blob(manifest.config.digest))?;
        let config = ImageConfig::parse_for(&config, &manifest, &Platform::of_this_machine())?;
        for (layer, diff_id) in manifest.layers.iter().zip(&config.rootfs.diff_ids) {
            self.unpack(layer, *diff_id)?;
        }
        let mut index = self.store.index()?;
        index.images.extend(names.iter().map(|name| (name.clone(), manifest_digest)));
        index.write(&self.store.folder)
    }

    fn unpack(&mut self, layer: &Descriptor, diff_id: Digest) -> Result<(), StoreError> {
        let place = self.store.layer(diff_id);
        if place.exists() {
            return Ok(());
        }
        let temporary = self.temporary();
        fs::create_dir(&temporary)?;
        rustix::fs::chmod(&temporary, rustix::fs::Mode::from_raw_mode(0o755)).map_err(io::Error::from)?;
        let blob = fs::File::open(self.store.blob(layer.digest))?;
        let actual = match layer.compression()? {
            Compression::None => unpack_checked(blob, &temporary),
            Compression::Gzip => unpack_checked(MultiGzDecoder::new(io::BufReader::new(blob)), &temporary),
            Compression::Zstd => return Err(StoreError::Zstd),
        };
        let actual = actual.map_err(|source| StoreError::Unpack { diff_id, source })?;
        if actual != diff_id {
            return Err(crate::digest::Error::Mismatch { expected: diff_id, actual }.into());
        }
        // All files of it at once, rather than each.
        rustix::fs::syncfs(fs::File::open(&temporary)?).map_err(io::Error::from)?;
        fs::rename(&temporary, &place)?;
        Ok(sync_folder(&self.store.folder.join("layers"))?)
    }

    /// Removes a name, and what nothing else needs. `in_use` returns the manifests that pods were made from.
    ///
    /// # Errors
    /// If the name is unknown, or the last one of an image that is in use.
    pub fn remove(
        &mut self,
        name: &Reference,
        in_use: &dyn Fn() -> io::Result<BTreeSet<Digest>>,
    ) -> Result<Removed, StoreError> {
        let _lock = self.store.lock("use.lock", FlockOperation::LockExclusive)?;
        let used = in_use()?;
        let mut index = self.store.index()?;
        let digest = index.images.remove(name).ok_or_else(|| StoreError::Missing(name.familiar()))?;
        if used.contains(&digest) && !index.images.values().any(|other| *other == digest) {
            return Err(StoreError::InUse(name.familiar()));
        }
        index.write(&self.store.folder)?;
        Ok(Removed { names: vec![name.clone()], bytes: self.collect(&used)? })
    }

    /// Removes all images that nothing uses.
    pub fn prune(&mut self, in_use: &dyn Fn() -> io::Result<BTreeSet<Digest>>) -> Result<Removed, StoreError> {
        let _lock = self.store.lock("use.lock", FlockOperation::LockExclusive)?;
        let used = in_use()?;
        let mut index = self.store.index()?;
        let mut names = Vec::new();
        index.images.retain(|name, digest| {
            let is_used = used.contains(digest);
            if !is_used {
                names.push(name.clone());
            }
            is_used
        });
        index.write(&self.store.folder)?;
        Ok(Removed { names, bytes: self.collect(&used)? })
    }

    /// Removes blobs and layers that no name and no pod leads to. Returns how many bytes the blobs had.
    fn collect(&mut self, used: &BTreeSet<Digest>) -> Result<u64, StoreError> {
        let index = self.store.index()?;
        let (mut blobs, mut layers) = (BTreeSet::new(), BTreeSet::new());
        for digest in index.images.values().chain(used) {
            if !self.has_blob(*digest) {
                continue;
            }
            let image = self.store.image(&index, *digest)?;
            blobs.insert(digest.hex());
            blobs.extend(image.manifest.descriptors().map(|part| part.digest.hex()));
            layers.extend(image.config.rootfs.diff_ids.iter().map(Digest::hex));
        }
        self.drop_others("layers", &layers)?;
        self.drop_others("blobs", &blobs)
    }

    fn drop_others(&mut self, folder: &str, keep: &BTreeSet<String>) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for entry in fs::read_dir(self.store.folder.join(folder))? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| keep.contains(name)) {
                continue;
            }
            let meta = entry.metadata()?;
            if meta.is_dir() {
                // Half a layer must not keep its name.
                let temporary = self.temporary();
                fs::rename(entry.path(), &temporary)?;
                remove_folder(&temporary)?;
            } else {
                bytes += meta.len();
                fs::remove_file(entry.path())?;
            }
        }
        Ok(bytes)
    }
}

fn unpack_checked(reader: impl Read, folder: &Path) -> Result<Digest, UnpackError> {
    let mut reader = Hashed { reader, hasher: Hasher::new() };
    unpack::unpack(&mut reader, folder, Options::of_caller())?;
    Ok(reader.hasher.finish())
}

/// Computes the digest of what passes.
struct Hashed<R> {
    reader: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

/// Makes names in a folder last.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
