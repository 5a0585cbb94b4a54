//! Content that comes from a registry, piece by piece. What has arrived stays when its process ends, and the next one
//! goes on. The lock is on the file itself: nobody fetches what somebody else is fetching, in whatever process.

use std::{
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::{Adding, StoreError, lock, temporary::sync_folder};
use crate::{Descriptor, Verifier, digest};

/// What is read at a time of what is here already.
const CHUNK: usize = 1 << 17;

/// Content that is on its way. What was written stays if this is dropped.
#[derive(Debug)]
pub struct Download {
    // The store must not be swept meanwhile.
    adding: Adding,
    part: Descriptor,
    path: PathBuf,
    file: fs::File,
    verifier: Verifier,
}

impl Adding {
    /// Begins or continues to fetch content. Blocks while another thread or process fetches the same; nothing if it is
    /// here by then.
    pub fn download(&self, part: &Descriptor) -> Result<Option<Download>, StoreError> {
        let path = self.path("downloads").join(part.digest.hex());
        loop {
            if self.has_blob(part.digest) {
                return Ok(None);
            }
            let file = fs::File::from_parts(lock::open(&path)?.into(), &path);
            lock::exclusive(file.file())?;
            // Who had the lock before has finished the file or removed it: then this one is none any more.
            if !is_at(&file, &path)? {
                continue;
            }
            if self.has_blob(part.digest) {
                // It came by another way, from an archive.
                fs::remove_file(&path)?;
            } else {
                return Download::begin(self.clone(), part.clone(), path, file).map(Some);
            }
        }
    }
}

impl Download {
    fn begin(adding: Adding, part: Descriptor, path: PathBuf, file: fs::File) -> Result<Self, StoreError> {
        let verifier = Verifier::new(part.digest, part.size);
        let mut download = Self { adding, part, path, file, verifier };
        if download.file.metadata()?.len() > download.part.size {
            download.restart()?;
        }
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = download.file.read(&mut buffer)?;
            if read == 0 {
                return Ok(download);
            }
            download.verifier.update(&buffer[..read])?;
        }
    }

    /// Returns how many bytes are here: the next one that is wanted. If it is the size, nothing more is.
    pub fn offset(&self) -> u64 {
        self.verifier.seen()
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// If there are more than the descriptor says; they are not written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.verifier.update(bytes)?;
        Ok(self.file.write_all(bytes)?)
    }

    /// Begins anew, because the other side does not go on where it ended.
    pub fn restart(&mut self) -> Result<(), StoreError> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.verifier = Verifier::new(self.part.digest, self.part.size);
        Ok(())
    }

    /// Checks the content and gives it its place. Durable when it returns.
    ///
    /// # Errors
    /// If it is too short: then it stays and can be continued. If it has another digest: then it is removed, and a new
    /// download begins with nothing.
    pub fn finish(self) -> Result<(), StoreError> {
        if let Err(error) = self.verifier.finish() {
            if matches!(error, digest::Error::Mismatch { .. }) {
                fs::remove_file(&self.path)?;
            }
            return Err(error.into());
        }
        self.file.sync_all()?;
        fs::rename(&self.path, self.adding.store().blob(self.part.digest))?;
        Ok(sync_folder(&self.adding.path("blobs"))?)
    }
}

/// Whether an open file is the one that a path leads to.
fn is_at(file: &fs::File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
