//! Fills a new store with objects that have their revisions already. For backups; nobody else uses the file meanwhile.

use std::path::Path;

use super::{
    disk::{Disk, OpenError},
    object::{Key, Object, Revision},
};

/// Objects are written together, each transaction with one sync.
const BATCH_MAX: usize = 1000;

/// A store in the making.
pub struct Import {
    disk: Disk,
    revision: Revision,
    batch: Vec<(Key, Object)>,
}

impl Import {
    /// Makes an empty store.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn begin(path: &Path) -> Result<Self, OpenError> {
        let disk = Disk::open(path)?;
        let (revision, _) = disk.load()?;
        Ok(Self { disk, revision, batch: Vec::new() })
    }

    /// Says at which revision the store was; what is written later comes after it.
    pub fn set_revision(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Adds an object.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, key: Key, object: Object) -> Result<(), OpenError> {
        self.set_revision(object.revision);
        self.batch.push((key, object));
        if self.batch.len() < BATCH_MAX { Ok(()) } else { self.write() }
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<(), OpenError> {
        self.write()
    }

    fn write(&mut self) -> Result<(), OpenError> {
        let rows: Vec<_> = self.batch.iter().map(|(key, object)| (key, Some(&**object.raw()))).collect();
        self.disk.write(&rows, self.revision).map_err(OpenError::Write)?;
        self.batch.clear();
        Ok(())
    }
}
