//! The store's file on a disk that may be full: its pages have their blocks before they are needed.
//!
//! Wherever the file system allows it the whole file is allocated, holes included, so that writing over pages that are
//! free needs no room. A file that must grow while the disk is full takes the blocks of [`Reserve`], a file beside it
//! that holds nothing else. The reserve is taken again as soon as there is room.

use std::{
    fs::File,
    io,
    ops::Bound,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{BackendError, StorageBackend, backends::FileBackend};
use rustix::fs::{FallocateFlags, fallocate, ftruncate};

/// An update of one object writes about fifteen pages of 4 KiB: room for some sixty updates before any page is reused.
const RESERVE_BYTES: u64 = 4 << 20;
/// On a small disk it is at most this part of it.
const RESERVE_PART: u64 = 16;
/// The reserve is taken again when there is this many times as much room.
const ROOM_FACTOR: u64 = 2;

/// redb's file, with room for what has to be written on a full disk.
#[derive(Debug)]
pub(super) struct ReservedFile {
    file: File,
    inner: FileBackend,
    reserve: Arc<Reserve>,
}

/// Blocks that are kept for the store.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    /// Whether the blocks have been given up.
    is_spent: AtomicBool,
}

impl Reserve {
    pub(super) fn beside(store: &Path) -> Self {
        Self { path: store.with_extension("reserve"), is_spent: AtomicBool::new(true) }
    }

    /// Whether the disk is so full that the store lives on its reserve.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Relaxed)
    }

    /// Takes the blocks, if there is room for them. Costs one look at the file system when nothing is to be done.
    pub(super) fn replenish(&self) {
        if self.is_spent() && self.take().unwrap_or(false) {
            self.is_spent.store(false, Ordering::Relaxed);
        }
    }

    /// Returns false if the disk is too full for it.
    fn take(&self) -> io::Result<bool> {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        let disk = rustix::fs::fstatvfs(&file)?;
        let bytes = RESERVE_BYTES.min(disk.f_blocks.saturating_mul(disk.f_frsize) / RESERVE_PART);
        if file.metadata()?.len() < bytes && disk.f_bavail.saturating_mul(disk.f_frsize) < bytes * ROOM_FACTOR {
            return Ok(false);
        }
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // Where nothing can be reserved, everything is as full as it looks.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the blocks up; returns whether there were any.
    fn spend(&self) -> bool {
        if self.is_spent.swap(true, Ordering::Relaxed) {
            return false;
        }
        tracing::warn!("the disk is full: the store uses what it has reserved");
        File::options().write(true).open(&self.path).is_ok_and(|file| ftruncate(&file, 0).is_ok())
    }
}

impl ReservedFile {
    pub(super) fn new(file: File, reserve: Arc<Reserve>) -> Result<Self, redb::DatabaseError> {
        let inner = FileBackend::new(file.try_clone()?)?;
        let whole = Self { file, inner, reserve };
        whole.back(whole.len()?);
        Ok(whole)
    }

    /// Gives every page below `len` its blocks, as far as there is room and the file system knows how.
    fn back(&self, len: u64) {
        if len > 0 {
            let _ = fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len);
        }
    }

    /// Tries again with the reserve what the disk has no room for.
    fn with_reserve<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && self.reserve.spend() => work(),
            done => done,
        }
    }
}

impl StorageBackend for ReservedFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with_reserve(|| self.inner.set_len(len))?;
        self.back(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with_reserve(|| self.inner.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_reserve(|| self.inner.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}
