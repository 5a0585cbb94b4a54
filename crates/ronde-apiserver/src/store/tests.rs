//! The store against a model: a plain map that takes the same writes.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn key(name: &str) -> Key {
    Key::new(&"configmaps".into(), "default", name)
}

fn draft(name: &str, data: u32) -> Draft {
    Draft::new(&json!({"metadata": {"name": name, "namespace": "default"}, "data": {"n": data.to_string()}}))
}

fn put(name: &str, expect: Expect, data: u32) -> Change {
    Change { key: key(name), expect, draft: draft(name, data), removes: false }
}

fn remove(object: &Object) -> Change {
    let expect = Expect::Revision(object.revision);
    Change { key: key(&object.place.name), expect, draft: object.redraft(), removes: true }
}

fn names(page: &Page) -> Vec<String> {
    page.objects.iter().map(|o| o.place.name.to_string()).collect()
}

/// The thread that wrote last may hold the file for a moment after it has answered.
fn reopen(path: &Path) -> Result<Store, OpenError> {
    for _ in 0..6000 {
        match Store::open(path) {
            Err(OpenError::InUse(_)) => std::thread::sleep(std::time::Duration::from_millis(10)),
            opened => return opened,
        }
    }
    Store::open(path)
}

#[tokio::test]
async fn expectations_guard_every_write() -> anyhow::Result<()> {
    let store = Store::in_memory()?;
    let first = store.commit(put("a", Expect::Absent, 1)).await?;
    assert!(matches!(store.commit(put("a", Expect::Absent, 2)).await, Err(CommitError::Exists)));
    assert!(matches!(store.commit(put("b", Expect::Revision(1), 2)).await, Err(CommitError::Missing)));
    let second = store.commit(put("a", Expect::Revision(first.revision), 2)).await?;
    assert!(second.revision > first.revision);
    assert!(matches!(store.commit(put("a", Expect::Revision(first.revision), 3)).await, Err(CommitError::Changed)));
    assert_eq!(store.get(&key("a")).as_deref(), Some(&*second));
    let gone = store.commit(remove(&second)).await?;
    assert!(gone.revision > second.revision && store.get(&key("a")).is_none());
    Ok(())
}

/// Whoever deletes the file must not be told that all is well.
#[tokio::test]
async fn a_deleted_file_takes_no_writes() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store");
    let store = Store::open(&path)?;
    store.commit(put("a", Expect::Absent, 1)).await?;
    fs_err::remove_file(&path)?;
    assert!(matches!(store.commit(put("b", Expect::Absent, 1)).await, Err(CommitError::Disk(_))));
    assert!(!store.is_writable().await && store.get(&key("b")).is_none());
    assert!(store.get(&key("a")).is_some(), "what is known can still be read");
    Ok(())
}

#[tokio::test]
async fn writes_that_queue_up_share_a_batch_and_keep_their_order() -> anyhow::Result<()> {
    let store = Store::in_memory()?;
    let writes = (0..100).map(|n| store.commit(put(&format!("{n:03}"), Expect::Absent, n)));
    let written = futures::future::try_join_all(writes).await?;
    assert!(written.is_sorted_by_key(|object| object.revision));
    let seen = store.events("configmaps", 1, 1000).map_err(|e| anyhow::anyhow!("{e:?}"))?;
    let revisions: Vec<_> = seen.events.iter().map(|e| e.revision()).collect();
    assert_eq!(revisions, written.iter().map(|o| o.revision).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn a_store_opened_again_has_everything_and_asks_watchers_to_list() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store");
    let store = Store::open(&path)?;
    let a = store.commit(put("a", Expect::Absent, 1)).await?;
    let b = store.commit(put("b", Expect::Absent, 2)).await?;
    store.commit(remove(&a)).await?;
    assert!(matches!(Store::open(&path), Err(OpenError::InUse(_))));
    let revision = store.revision();
    drop(store);

    let store = reopen(&path)?;
    assert_eq!(store.revision(), revision);
    assert_eq!(store.get(&key("b")).as_deref(), Some(&*b));
    assert!(store.get(&key("a")).is_none());
    assert!(store.events("configmaps", revision, 10).is_ok());
    assert_eq!(
        store.events("configmaps", revision - 1, 10).err(),
        Some(TooOld { asked: revision - 1, oldest: revision })
    );
    Ok(())
}

#[test]
fn a_store_whose_making_was_cut_short_is_made_anew() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (path, unfinished) = (folder.path().join("store"), folder.path().join("store.unfinished"));
    fs_err::write(&unfinished, "half of a header")?;
    assert_eq!(Store::open(&path)?.revision(), 1);
    assert!(path.exists() && !unfinished.exists());
    Ok(())
}

#[test]
fn many_updates_of_one_object_do_not_fill_the_memory() {
    let mut state = State::default();
    let key = key("a");
    for revision in 1..=50_000 {
        let kind = if revision == 1 { EventKind::Added } else { EventKind::Modified };
        state.publish(&key, kind, Arc::new(draft("a", 0).at(revision)));
    }
    let kept = state.collections[&key.collection].history.after(40_000, 0, usize::MAX).map(|e| e.len());
    assert_eq!(kept, Ok(10_000));
    assert!(state.collections[&key.collection].history.after(39_999, 0, 1).is_err());
}

#[tokio::test]
async fn the_file_does_not_grow_with_updates_of_one_object() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store");
    let store = Store::open(&path)?;
    let mut object = store.commit(put("a", Expect::Absent, 0)).await?;
    let mut sizes = Vec::new();
    for number in 1..=1500 {
        object = store.commit(put("a", Expect::Revision(object.revision), number)).await?;
        if number % 500 == 0 {
            sizes.push(fs_err::metadata(&path)?.len());
        }
    }
    assert_eq!(sizes[0], sizes[2], "{sizes:?}");
    Ok(())
}

/// As many updates as share a sync.
const TOGETHER: u32 = 256;

/// Updates one object so often, and compares the size of the file after each tenth of it.
async fn check_size_under(updates: u32) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store");
    let store = Store::open(&path)?;
    let mut newest = store.commit(put("a", Expect::Absent, 0)).await?.revision;
    let (rounds, mut sizes) = (updates / TOGETHER, Vec::new());
    for round in 1..=rounds {
        let over = (newest..).take(TOGETHER as usize);
        let batch = over.map(|revision| store.commit(put("a", Expect::Revision(revision), round)));
        let written = futures::future::try_join_all(batch).await?;
        newest = written.last().map_or(newest, |object| object.revision);
        if round % (rounds / 10) == 0 {
            sizes.push(fs_err::metadata(&path)?.len());
        }
    }
    assert_eq!(sizes.iter().min(), sizes.iter().max(), "{sizes:?}");
    Ok(())
}

#[tokio::test]
async fn the_file_does_not_grow_with_updates_that_share_a_sync() -> anyhow::Result<()> {
    check_size_under(20_000).await
}

#[tokio::test]
#[ignore = "takes minutes: make test-large"]
async fn the_file_does_not_grow_under_a_million_updates_of_one_object() -> anyhow::Result<()> {
    check_size_under(1_000_000).await
}

#[tokio::test]
async fn a_forgotten_collection_takes_its_past_with_it() -> anyhow::Result<()> {
    let store = Store::in_memory()?;
    let before = store.revision();
    let a = store.commit(put("a", Expect::Absent, 1)).await?;
    store.forget("configmaps");
    assert_eq!(store.get(&key("a")), Some(a.clone()), "what holds objects is not forgotten");
    let mut changes = store.changes(&"configmaps".into());
    store.commit(remove(&a)).await?;
    store.forget("configmaps");
    changes.mark_unchanged();
    assert!(changes.changed().await.is_err(), "its watches end");
    assert!(store.counts().is_empty());
    let now = store.revision();
    // Also after a collection of that name has come again.
    for name in ["b", "c"] {
        let range = Range { at: Some(before), ..Range::default() };
        assert_eq!(store.events("configmaps", before, 10).err(), Some(TooOld { asked: before, oldest: now }));
        assert_eq!(store.list("configmaps", &range).err(), Some(TooOld { asked: before, oldest: now }));
        assert!(store.events("configmaps", now, 10).is_ok());
        store.commit(put(name, Expect::Absent, 1)).await?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every past revision can be listed as it was, and the events lead from each to the newest.
    #[test]
    fn pages_and_events_agree_with_a_model(steps in prop::collection::vec((0u8..6, any::<bool>()), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let store = Store::in_memory().expect("a store in memory");
            let mut model: BTreeMap<String, Revision> = BTreeMap::new();
            let mut past = vec![(store.revision(), model.clone())];
            for (n, removes) in steps {
                let name = format!("o{n}");
                let current = store.get(&key(&name));
                let change = match &current {
                    Some(object) if removes => remove(object),
                    Some(object) => put(&name, Expect::Revision(object.revision), 1),
                    None => put(&name, Expect::Absent, 0),
                };
                let gone = change.removes;
                let written = store.commit(change).await.expect("the expectation holds");
                if gone { model.remove(&name); } else { model.insert(name, written.revision); }
                past.push((written.revision, model.clone()));
            }
            for (revision, then) in past {
                let page = store.list("configmaps", &Range { at: Some(revision), ..Range::default() }).expect("kept");
                let seen: BTreeMap<_, _> = page.objects.iter().map(|o| (o.place.name.to_string(), o.revision)).collect();
                assert_eq!(&seen, &then);
                let mut replay = then;
                for event in store.events("configmaps", revision, 1000).expect("kept").events {
                    let name = event.object.place.name.to_string();
                    match event.kind {
                        EventKind::Deleted => assert!(replay.remove(&name).is_some()),
                        EventKind::Added => assert!(replay.insert(name, event.revision()).is_none()),
                        EventKind::Modified => assert!(replay.insert(name, event.revision()).is_some()),
                    }
                }
                assert_eq!(&replay, &model);
            }
        });
    }

    /// Reading page by page at one revision gives the whole list of that revision, whatever is written in between.
    #[test]
    fn pages_are_consistent(first in prop::collection::btree_set(0u8..30, 1..20), later in prop::collection::vec(0u8..30, 0..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let store = Store::in_memory().expect("a store in memory");
            for n in &first {
                store.commit(put(&format!("{n:02}"), Expect::Absent, 0)).await.expect("new");
            }
            let whole = store.list("configmaps", &Range::default()).expect("newest");
            let mut read = vec![names(&whole)[0].clone()];
            for n in later {
                let name = format!("{n:02}");
                let change = match store.get(&key(&name)) {
                    Some(object) => remove(&object),
                    None => put(&name, Expect::Absent, 0),
                };
                store.commit(change).await.expect("the expectation holds");
            }
            while let Some(last) = read.last() {
                let after = Some(NamespacedName::new("default", last));
                let range = Range { namespace: Some("default".into()), after, at: Some(whole.revision) };
                match names(&store.list("configmaps", &range).expect("kept")).first() {
                    Some(next) => read.push(next.clone()),
                    None => break,
                }
            }
            assert_eq!(read, names(&whole));
        });
    }
}
