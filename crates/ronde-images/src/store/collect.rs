//! Making room when the disk is nearly full: what costs least to lose goes first.
//!
//! 1. What pulls that did not end left behind, and what nothing leads to any more.
//! 2. The packed layers of images, which only `ronde image save` needs: those of the image first that was used least
//!    recently.
//! 3. Images that no pod was made from, the least recently used first.

use std::{
    io,
    time::{Duration, SystemTime},
};

use fs_err as fs;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

use super::{
    Image, Store, StoreError,
    removing::{InUse, Removed, Removing},
};
use crate::Digest;

impl Store {
    /// Notes that an image is used now. Cheap: no more than the time of a small file.
    pub fn touch(&self, manifest: Digest) -> Result<(), StoreError> {
        let folder = self.folder.join("used");
        fs::create_dir_all(&folder)?;
        let file = fs::OpenOptions::new().create(true).append(true).open(folder.join(manifest.hex()))?;
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        Ok(futimens(file.file(), &Timestamps { last_access: now, last_modification: now }).map_err(io::Error::from)?)
    }

    /// Returns when an image was used last; when it came, if it never was.
    pub fn last_used(&self, manifest: Digest) -> Result<Duration, StoreError> {
        let noted = fs::metadata(self.folder.join("used").join(manifest.hex()));
        let modified = noted.or_else(|_| fs::metadata(self.blob(manifest)))?.modified()?;
        Ok(modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }

    /// Removes the least recently used images that nothing uses, until so many bytes are free. Waits until nobody adds.
    pub fn collect_oldest(&self, bytes_wanted: u64, in_use: InUse<'_>) -> Result<Removed, StoreError> {
        if !self.folder.exists() {
            return Ok(Removed::default());
        }
        self.removing()?.collect_oldest(bytes_wanted, in_use)
    }

    /// Returns all images, the least recently used first.
    pub(super) fn by_age(&self) -> Result<Vec<Image>, StoreError> {
        let images = self.list()?.into_iter().map(|image| Ok((self.last_used(image.digest)?, image)));
        let mut images = images.collect::<Result<Vec<_>, StoreError>>()?;
        images.sort_by_key(|(used, _)| *used);
        Ok(images.into_iter().map(|(_, image)| image).collect())
    }
}

impl Removing {
    /// As [`Store::collect_oldest`], for who has the right already.
    pub fn collect_oldest(&self, bytes_wanted: u64, in_use: InUse<'_>) -> Result<Removed, StoreError> {
        let mut removed = self.drop_unneeded(in_use)?;
        let images = self.store().by_age()?;
        for image in &images {
            if removed.bytes >= bytes_wanted {
                return Ok(removed);
            }
            removed.bytes += self.drop_packed(image)?;
        }
        let used = in_use()?;
        for image in images.iter().filter(|image| !used.contains(&image.digest)) {
            if removed.bytes >= bytes_wanted {
                break;
            }
            self.remove_image(image, in_use, &mut removed)?;
        }
        Ok(removed)
    }

    fn remove_image(&self, image: &Image, in_use: InUse<'_>, removed: &mut Removed) -> Result<(), StoreError> {
        for name in &image.names {
            match self.remove(name, in_use) {
                Ok(more) => {
                    removed.bytes += more.bytes;
                    removed.names.extend(more.names);
                }
                // A pod took it at this moment.
                Err(StoreError::InUse(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
