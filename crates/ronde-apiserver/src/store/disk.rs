//! The file behind the store: one redb table of objects, one of facts about the store itself.
//!
//! [`Disk::write`] is the only write and it is atomic and synced: all changes of a batch are in the file when it returns
//! well. When it fails, redb does not trust the file any more: the next write opens it anew. Only current objects are
//! kept, so the file does not grow with the number of updates.

use std::{
    fs::File,
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use fs_err as fs;
use parking_lot::Mutex;
use redb::{Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use super::{
    file::{Reserve, ReservedFile},
    object::{Damaged, Key, NamespacedName, Object, Revision},
};

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
    #[error("cannot write the store")]
    Write(#[source] redb::Error),
    #[error("the store has layout {0}, which is newer than this program's {FORMAT_VERSION}")]
    Newer(u64),
    #[error("the store is damaged")]
    Damaged(#[source] Damaged),
}

pub(super) struct Disk {
    /// Nothing after a failed write, until the next one.
    database: Mutex<Option<Database>>,
    open: Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>,
    /// Nothing if there is no file.
    reserve: Option<Arc<Reserve>>,
    /// The file itself, to see whether it still has a name; none in memory.
    file: Option<File>,
}

/// One row to change; no bytes means remove.
pub(super) type Row<'a> = (&'a Key, Option<&'a [u8]>);

impl Disk {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        if !path.exists() {
            Self::make(path)?;
        }
        let reserve = Arc::new(Reserve::beside(path));
        reserve.replenish();
        let (store, kept) = (path.to_owned(), reserve.clone());
        let open = move || open_file(&store, false, kept.clone());
        let disk = Self::opened_by(open).map_err(|source| unopened(path, source))?;
        let file = fs::File::open(path).map(fs::File::into_file).map_err(|source| unopened(path, source.into()))?;
        Ok(Self { reserve: Some(reserve), file: Some(file), ..disk })
    }

    /// Makes an empty store. It gets its name when it is whole: killed before, it is made anew the next time.
    fn make(path: &Path) -> Result<(), OpenError> {
        let unfinished = path.with_extension("unfinished");
        let (place, reserve) = (unfinished.clone(), Arc::new(Reserve::beside(path)));
        let open = move || open_file(&place, true, reserve.clone());
        Self::opened_by(open).map_err(|source| unopened(path, source))?.prepare()?;
        let named = fs::rename(&unfinished, path).and_then(|()| sync_folder(path));
        named.map_err(|source| unopened(path, source.into()))
    }

    pub(super) fn in_memory() -> Result<Self, OpenError> {
        Self::with_backend(redb::backends::InMemoryBackend::new)
    }

    /// A store on something else than a file; `backend` is asked again after a failure.
    pub(super) fn with_backend<B: StorageBackend>(
        backend: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let open = move || builder().create_with_backend(backend());
        Self::opened_by(open).map_err(|source| OpenError::Open { path: "memory".into(), source })
    }

    fn opened_by(
        open: impl Fn() -> Result<Database, DatabaseError> + Send + Sync + 'static,
    ) -> Result<Self, DatabaseError> {
        Ok(Self { database: Mutex::new(Some(open()?)), open: Box::new(open), reserve: None, file: None })
    }

    /// Whether the disk is so full that only what is there already may be changed or removed.
    pub(super) fn is_full(&self) -> bool {
        self.reserve.as_ref().is_some_and(|reserve| {
            reserve.replenish();
            reserve.is_spent()
        })
    }

    /// Reads everything: the newest revision and all objects.
    pub(super) fn load(&self) -> Result<(Revision, Vec<(Key, Object)>), OpenError> {
        self.prepare()?;
        self.read()
    }

    fn prepare(&self) -> Result<(), OpenError> {
        let run = |database: &Database| -> Result<u64, redb::Error> {
            let transaction = database.begin_write()?;
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
        match self.with_database(run).map_err(OpenError::Read)? {
            FORMAT_VERSION => Ok(()),
            other => Err(OpenError::Newer(other)),
        }
    }

    fn read(&self) -> Result<(Revision, Vec<(Key, Object)>), OpenError> {
        let read = |database: &Database| -> Result<_, redb::Error> {
            let transaction = database.begin_read()?;
            let revision = transaction.open_table(FACTS)?.get(REVISION)?.map_or(1, |v| v.value());
            let mut rows = Vec::new();
            for row in transaction.open_table(OBJECTS)?.iter()? {
                let (key, raw) = row?;
                let (collection, namespace, name) = key.value();
                let key = Key { collection: collection.into(), place: NamespacedName::new(namespace, name) };
                rows.push((key, Bytes::copy_from_slice(raw.value())));
            }
            Ok((revision, rows))
        };
        let (revision, rows) = self.with_database(read).map_err(OpenError::Read)?;
        let whole = |(key, raw): (Key, Bytes)| Ok((key.clone(), Object::from_stored(key.place, raw)?));
        let objects = rows.into_iter().map(whole).collect::<Result<_, _>>().map_err(OpenError::Damaged)?;
        Ok((revision, objects))
    }

    /// Writes all rows and the revision in one synced transaction.
    ///
    /// # Errors
    /// If that fails: nobody knows then whether the changes are in the file.
    pub(super) fn write(&self, rows: &[Row<'_>], revision: Revision) -> Result<(), redb::Error> {
        self.with_database(|database| {
            let mut transaction = database.begin_write()?;
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
        })?;
        self.check_name()
    }

    /// Returns the size of the file; none in memory.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.file.as_ref()?.metadata().ok().map(|metadata| metadata.len())
    }

    /// Whoever deletes the file deletes what is written after that, however well it goes.
    fn check_name(&self) -> Result<(), redb::Error> {
        let Some(file) = &self.file else { return Ok(()) };
        match file.metadata()?.nlink() {
            0 => Err(io::Error::new(io::ErrorKind::NotFound, "the store's file was deleted").into()),
            _ => Ok(()),
        }
    }

    /// Works on the database, which is opened again if the last work on it has failed.
    fn with_database<T>(&self, work: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, redb::Error> {
        let mut database = self.database.lock();
        let open = match database.take() {
            Some(open) => open,
            None => (self.open)()?,
        };
        let done = work(&open)?;
        *database = Some(open);
        Ok(done)
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn open_file(path: &Path, afresh: bool, reserve: Arc<Reserve>) -> Result<Database, DatabaseError> {
    // It holds secrets, so it is ours alone from the first byte on.
    let mut options = File::options();
    options.read(true).write(true).create(afresh).truncate(afresh).mode(0o600);
    builder().create_with_backend(ReservedFile::new(options.open(path)?, reserve)?)
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
