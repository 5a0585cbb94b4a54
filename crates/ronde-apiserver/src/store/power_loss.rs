//! What survives when the power fails: the store on a disk that forgets whatever was not synced.
//!
//! The disk is a seeded fake under the real redb. It stops at a random operation, then keeps of the writes since the
//! last sync a random part, some of them torn in the middle, as a real disk may. Every write that was acknowledged
//! before must be there afterwards, and every object must be whole.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::json;

use super::{Change, CommitError, Disk, Draft, Expect, Key, Range, Revision, Store};

const SEEDS: u64 = 100;
const WRITES: usize = 40;
const KEYS: usize = 5;

/// Bytes on a disk, and what has been written since they were synced.
#[derive(Debug, Default)]
struct Platter {
    synced: Vec<u8>,
    unsynced: Vec<(u64, Vec<u8>)>,
    visible: Vec<u8>,
    /// Operations left until the power fails.
    operations_left: usize,
}

/// Chance from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit
    }
}

#[derive(Debug, Clone, Default)]
struct Fragile(Arc<Mutex<Platter>>);

impl Fragile {
    fn new(bytes: Vec<u8>, operations_left: usize) -> Self {
        let platter = Platter { visible: bytes.clone(), synced: bytes, unsynced: Vec::new(), operations_left };
        Self(Arc::new(Mutex::new(platter)))
    }

    fn operate<T>(&self, work: impl FnOnce(&mut Platter) -> T) -> io::Result<T> {
        let mut platter = self.0.lock();
        if platter.operations_left == 0 {
            return Err(io::Error::other("the power is off"));
        }
        platter.operations_left -= 1;
        Ok(work(&mut platter))
    }

    /// What is on the disk when the power is back.
    fn after_failure(&self, chance: &mut Chance) -> Vec<u8> {
        let platter = self.0.lock();
        let mut bytes = platter.synced.clone();
        bytes.resize(platter.visible.len(), 0);
        for (offset, data) in &platter.unsynced {
            let kept = match chance.below(4) {
                0 => 0,
                1 => chance.below(data.len() + 1),
                _ => data.len(),
            };
            let start = usize::try_from(*offset).unwrap_or(usize::MAX);
            if let Some(place) = bytes.get_mut(start..start + kept) {
                place.copy_from_slice(&data[..kept]);
            }
        }
        bytes
    }
}

impl redb::StorageBackend for Fragile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().visible.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = self.0.lock();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = platter.visible.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.operate(|platter| platter.visible.resize(len, 0))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.operate(|platter| {
            platter.synced = platter.visible.clone();
            platter.unsynced.clear();
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.operate(|platter| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            platter.visible[start..start + data.len()].copy_from_slice(data);
            platter.unsynced.push((offset, data.to_vec()));
        })
    }
}

/// The same disk, however often it is asked for.
fn fixed(disk: &Fragile) -> impl Fn() -> Fragile + Send + Sync + 'static {
    let disk = disk.clone();
    move || disk.clone()
}

fn change(name: &str, number: usize, over: Option<Revision>) -> Change {
    let value = json!({
        "metadata": {"name": name, "namespace": "default"},
        // Both must be equal in every object that is ever read.
        "data": {"first": number, "filler": "x".repeat(number * 37 % 5000), "last": number},
    });
    let expect = over.map_or(Expect::Absent, Expect::Revision);
    Change { key: key(name), expect, draft: Draft::new(&value), removes: false }
}

fn key(name: &str) -> Key {
    Key::new(&"configmaps".into(), "default", name)
}

/// Writes until the power fails; returns the newest acknowledged number of each key.
async fn write_until_failure(store: &Store) -> BTreeMap<String, usize> {
    let mut acknowledged = BTreeMap::new();
    for number in 0..WRITES {
        let name = format!("o{}", number % KEYS);
        let over = store.get(&key(&name)).map(|object| object.revision);
        if store.commit(change(&name, number, over)).await.is_err() {
            break;
        }
        acknowledged.insert(name, number);
    }
    acknowledged
}

fn check(seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut chance = Chance(seed);
    // A fresh store takes about forty operations, each write about ten.
    let disk = Fragile::new(Vec::new(), usize::MAX);
    drop(Store::with_disk(Disk::with_backend(fixed(&disk)).expect("a new store")).expect("a new store"));
    let image = disk.0.lock().visible.clone();

    let disk = Fragile::new(image, 10 + chance.below(390));
    let Ok(opened) = Disk::with_backend(fixed(&disk)) else { return };
    let Ok(store) = Store::with_disk(opened) else { return };
    let acknowledged = runtime.block_on(write_until_failure(&store));
    let revision = store.revision();
    drop(store);

    let disk = Fragile::new(disk.after_failure(&mut chance), usize::MAX);
    let store = Store::with_disk(Disk::with_backend(fixed(&disk)).expect("opens after a failure"))
        .expect("loads after a failure");
    assert!(store.revision() >= revision, "seed {seed}: the revision went back");
    for (name, number) in acknowledged {
        let object = store.get(&key(&name)).unwrap_or_else(|| panic!("seed {seed}: {name} is lost")).value();
        assert!(object["data"]["first"].as_u64() >= Some(number as u64), "seed {seed}: an acknowledged write is lost");
    }
    for object in store.list("configmaps", &Range::default()).expect("the newest").objects {
        let value = object.value();
        assert_eq!(value["data"]["first"], value["data"]["last"], "seed {seed}: half an object");
    }
}

/// A store whose disk fails from now on, and what makes it work again.
pub(crate) async fn store_on_a_failed_disk() -> anyhow::Result<(Store, impl Fn())> {
    let disk = Fragile::new(Vec::new(), usize::MAX);
    let store = Store::with_disk(Disk::with_backend(fixed(&disk))?)?;
    let first = store.commit(change("a", 0, None)).await?;
    anyhow::ensure!(store.is_writable().await);
    disk.0.lock().operations_left = 0;
    let failed = store.commit(change("a", 1, Some(first.revision))).await;
    anyhow::ensure!(matches!(failed, Err(CommitError::Disk(_))), "{failed:?}");
    Ok((store, move || disk.0.lock().operations_left = usize::MAX))
}

#[tokio::test]
async fn a_disk_that_fails_is_told_and_used_again_when_it_works() -> anyhow::Result<()> {
    let (store, mend) = store_on_a_failed_disk().await?;
    let first = store.get(&key("a")).ok_or_else(|| anyhow::anyhow!("what is there can still be read"))?;
    assert!(!store.is_writable().await);
    assert!(store.commit(change("a", 2, Some(first.revision))).await.is_err());
    assert!(!store.is_writable().await, "it is tried again, in vain");
    mend();
    assert!(store.is_writable().await, "nobody has to write for it");
    let second = store.commit(change("a", 3, Some(first.revision))).await?;
    assert_eq!(second.value()["data"]["first"], 3);
    Ok(())
}

/// Fails at every operation of a write in turn, then works again: a write that was refused has not happened, also if the
/// disk has it.
#[tokio::test]
async fn what_was_refused_is_not_there_after_the_next_start() -> anyhow::Result<()> {
    let mut landed = 0;
    for operations in 0..60 {
        let disk = Fragile::new(Vec::new(), usize::MAX);
        let store = Store::with_disk(Disk::with_backend(fixed(&disk))?)?;
        let first = store.commit(change("a", 1, None)).await?;
        disk.0.lock().operations_left = operations;
        if store.commit(change("a", 2, Some(first.revision))).await.is_ok() {
            break;
        }
        disk.0.lock().operations_left = usize::MAX;
        let refused =
            Store::with_disk(Disk::with_backend(fixed(&Fragile::new(disk.0.lock().visible.clone(), usize::MAX)))?)?;
        landed += u32::from(refused.get(&key("a")).is_some_and(|object| object.value()["data"]["first"] == 2));
        store.commit(change("b", 3, None)).await?;
        drop(store);
        let disk = Fragile::new(disk.0.lock().visible.clone(), usize::MAX);
        let store = Store::with_disk(Disk::with_backend(fixed(&disk))?)?;
        let found = |name: &str| store.get(&key(name)).map(|object| object.value()["data"]["first"].clone());
        assert_eq!((found("a"), found("b")), (Some(json!(1)), Some(json!(3))), "after {operations} operations");
    }
    assert!(landed > 0, "no failure left a refused write on the disk: the test has lost its point");
    Ok(())
}

/// A disk that panics when it is told to.
#[derive(Debug, Default)]
struct Broken {
    inner: redb::backends::InMemoryBackend,
    breaks: Arc<AtomicBool>,
}

impl redb::StorageBackend for Broken {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        assert!(!self.breaks.load(Ordering::Relaxed), "a bug below the store");
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }
}

#[tokio::test]
async fn a_panic_under_a_write_leaves_nobody_waiting() -> anyhow::Result<()> {
    let breaks = Arc::new(AtomicBool::new(false));
    let told = breaks.clone();
    let disk = move || Broken { breaks: told.clone(), ..Broken::default() };
    let store = Store::with_disk(Disk::with_backend(disk)?)?;
    breaks.store(true, Ordering::Relaxed);
    let together = futures::future::join_all((0..10).map(|n| store.commit(change(&format!("o{n}"), n, None))));
    assert!(together.await.iter().all(Result::is_err), "none of them is durable");
    assert!(store.commit(change("late", 0, None)).await.is_err(), "nor is a later one, and it is answered");
    assert!(!store.is_writable().await);
    breaks.store(false, Ordering::Relaxed);
    assert!(store.is_writable().await);
    Ok(())
}

#[test]
fn acknowledged_writes_survive_a_power_failure_at_any_point() {
    for seed in 0..SEEDS {
        check(seed);
    }
}
