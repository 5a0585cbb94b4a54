//! The file behind the store: one redb table of objects, one of facts about the store itself.
//!
//! [`Disk::write`] is the only write and it is atomic and synced: either all changes of a batch are in the file when it
//! returns, or none is. Only current objects are kept, so the file does not grow with the number of updates.

use std::{fs::File, io, os::unix::fs::OpenOptionsExt as _, path::Path};

use bytes::Bytes;
use fs_err as fs;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::object::{Damaged, Key, Object, Place, Revision};

/// (collection, namespace, name) → the stored form.
const OBJECTS: TableDefinition<'_, (&str, &str, &str), &[u8]> = TableDefinition::new("objects");
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
const REVISION: &str = "revision";
const FORMAT: &str = "format";
/// The version of the layout above; a file with a newer one is refused.
const FORMAT_VERSION: u64 = 1;

/// Reads come from memory, so the file needs little cache.
const CACHE_BYTES: usize = 8 << 20;

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the store `{0}` is in use by another process")]
    InUse(String),
    #[error("cannot open the store `{path}`")]
    Open { path: String, source: redb::DatabaseError },
    #[error("cannot read the store")]
    Read(#[source] redb::Error),
    #[error("the store has layout {0}, which is newer than this program's {FORMAT_VERSION}")]
    Newer(u64),
    #[error("the store is damaged")]
    Damaged(#[source] Damaged),
}

pub(super) struct Disk {
    database: Database,
}

/// One row to change; no bytes means remove.
pub(super) type Row<'a> = (&'a Key, Option<&'a [u8]>);

impl Disk {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        if !path.exists() {
            Self::make(path)?;
        }
        Self::open_file(path, false)
    }

    /// Makes an empty store. It gets its name when it is whole: killed before, it is made anew the next time.
    fn make(path: &Path) -> Result<(), OpenError> {
        let unfinished = path.with_extension("unfinished");
        Self::open_file(&unfinished, true)?.prepare()?;
        let named = fs::rename(&unfinished, path).and_then(|()| sync_folder(path));
        named.map_err(|source| unopened(path, source.into()))
    }

    fn open_file(path: &Path, afresh: bool) -> Result<Self, OpenError> {
        // It holds secrets, so it is ours alone from the first byte on.
        let mut options = File::options();
        options.read(true).write(true).create(afresh).truncate(afresh).mode(0o600);
        let file = options.open(path).map_err(|source| unopened(path, source.into()))?;
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create_file(file);
        Ok(Self { database: opened.map_err(|source| unopened(path, source))? })
    }

    pub(super) fn in_memory() -> Result<Self, OpenError> {
        Self::with_backend(redb::backends::InMemoryBackend::new())
    }

    pub(super) fn with_backend(backend: impl redb::StorageBackend) -> Result<Self, OpenError> {
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend);
        Ok(Self { database: opened.map_err(|source| OpenError::Open { path: "memory".into(), source })? })
    }

    /// Reads everything: the newest revision and all objects.
    pub(super) fn load(&self) -> Result<(Revision, Vec<(Key, Object)>), OpenError> {
        self.prepare()?;
        self.read()
    }

    fn prepare(&self) -> Result<(), OpenError> {
        let run = || -> Result<u64, redb::Error> {
            let transaction = self.database.begin_write()?;
            transaction.open_table(OBJECTS)?;
            let mut facts = transaction.open_table(FACTS)?;
            let format = facts.get(FORMAT)?.map(|v| v.value());
            if format.is_none() {
                facts.insert(FORMAT, FORMAT_VERSION)?;
                // Clients take version 0 for "any": the first write gets 2, an empty store answers 1.
                facts.insert(REVISION, 1)?;
            }
            drop(facts);
            transaction.commit()?;
            Ok(format.unwrap_or(FORMAT_VERSION))
        };
        match run().map_err(OpenError::Read)? {
            FORMAT_VERSION => Ok(()),
            other => Err(OpenError::Newer(other)),
        }
    }

    fn read(&self) -> Result<(Revision, Vec<(Key, Object)>), OpenError> {
        let read = |error: redb::Error| OpenError::Read(error);
        let transaction = self.database.begin_read().map_err(|e| read(e.into()))?;
        let facts = transaction.open_table(FACTS).map_err(|e| read(e.into()))?;
        let revision = facts.get(REVISION).map_err(|e| read(e.into()))?.map_or(1, |v| v.value());
        let table = transaction.open_table(OBJECTS).map_err(|e| read(e.into()))?;
        let mut objects = Vec::new();
        for row in table.iter().map_err(|e| read(e.into()))? {
            let (key, raw) = row.map_err(|e| read(e.into()))?;
            let (collection, namespace, name) = key.value();
            let place = Place::new(namespace, name);
            let object =
                Object::from_stored(place.clone(), Bytes::copy_from_slice(raw.value())).map_err(OpenError::Damaged)?;
            objects.push((Key { collection: collection.into(), place }, object));
        }
        Ok((revision, objects))
    }

    /// Writes all rows and the revision in one synced transaction.
    pub(super) fn write(&self, rows: &[Row<'_>], revision: Revision) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        let mut objects = transaction.open_table(OBJECTS)?;
        for (key, raw) in rows {
            let row = (&*key.collection, &*key.place.namespace, &*key.place.name);
            match raw {
                Some(raw) => drop(objects.insert(row, *raw)?),
                None => drop(objects.remove(row)?),
            }
        }
        drop(objects);
        transaction.open_table(FACTS)?.insert(REVISION, revision)?;
        Ok(transaction.commit()?)
    }
}

/// Makes the name of a file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
}

fn unopened(path: &Path, source: redb::DatabaseError) -> OpenError {
    let path = path.display().to_string();
    match source {
        redb::DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(path),
        source => OpenError::Open { path, source },
    }
}
