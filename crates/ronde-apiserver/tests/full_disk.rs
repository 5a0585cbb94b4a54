//! The store on a disk that is full: what is there can be changed and removed for as long as it takes.

use std::time::Duration;

use ronde_apiserver::store::{Change, CommitError, Draft, Expect, Key, Object, Store};
use ronde_sim::{SmallDisk, wait_until};
use serde_json::json;

/// Many times what the pages that are free at first would last.
const UPDATES: u32 = 3000;

fn key(name: &str) -> Key {
    Key::new(&"configmaps".into(), "default", name)
}

fn draft(name: &str, bytes: usize) -> Draft {
    Draft::new(&json!({"metadata": {"name": name, "namespace": "default"}, "data": {"x": "x".repeat(bytes)}}))
}

async fn create(store: &Store, name: &str) -> Result<(), CommitError> {
    let change = Change { key: key(name), expect: Expect::Absent, draft: draft(name, 4000), removes: false };
    store.commit(change).await.map(drop)
}

async fn update(store: &Store, object: &Object, bytes: usize) -> Result<(), CommitError> {
    let name = &object.place.name;
    let expect = Expect::Revision(object.revision);
    store.commit(Change { key: key(name), expect, draft: draft(name, bytes), removes: false }).await.map(drop)
}

async fn remove(store: &Store, object: &Object) -> Result<(), CommitError> {
    let (key, expect) = (key(&object.place.name), Expect::Revision(object.revision));
    store.commit(Change { key, expect, draft: object.redraft(), removes: true }).await.map(drop)
}

#[tokio::test]
async fn on_a_full_disk_everything_that_is_there_can_be_changed_and_removed() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "size=24m") else { return Ok(()) };
    let path = folder.path().join("disk/store");
    let store = Store::open(&path)?;
    for number in 0..100 {
        create(&store, &format!("o{number}")).await?;
    }
    disk.fill();

    // 1. New objects are taken as long as there are free pages, and refused before they take those of the others.
    let mut made = 100;
    let refused = loop {
        match create(&store, &format!("o{made}")).await {
            Ok(()) => made += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, CommitError::Full), "{refused:?}");
    assert!(store.is_writable().await);

    // 2. Everything else goes on.
    let get = |number: u32| store.get(&key(&format!("o{number}"))).expect("it was made");
    for number in 0..UPDATES {
        update(&store, &get(number % made), usize::try_from(number % 5)? * 1000).await?;
    }
    for number in 0..made {
        remove(&store, &get(number)).await?;
    }
    assert!(matches!(create(&store, "late").await, Err(CommitError::Full)), "the reserve is not for new objects");

    // 3. It is as before when there is room, and after the next start.
    disk.relieve()?;
    create(&store, "late").await?;
    drop(store);
    // The thread that wrote last may hold the file for a moment after it has answered.
    let store = wait_until("the file is free", Duration::from_secs(60), || Store::open(&path).ok());
    assert!(store.get(&key("late")).is_some());
    Ok(())
}

/// The last resort: somebody else took the room at the very moment at which the reserve was given up.
#[tokio::test]
async fn without_a_reserve_a_write_fails_and_the_next_one_is_tried_anew() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "size=24m") else { return Ok(()) };
    let store = Store::open(&folder.path().join("disk/store"))?;
    create(&store, "a").await?;
    fs_err::write(folder.path().join("disk/store.reserve"), "")?;
    disk.fill();
    let mut number = 0;
    let failed = loop {
        number += 1;
        match create(&store, &format!("b{number}")).await {
            Ok(()) => {}
            Err(failed) => break failed,
        }
    };
    assert!(matches!(failed, CommitError::Disk(_)), "{failed:?}");
    let object = store.get(&key("b1")).expect("it was made");
    remove(&store, &object).await?;
    disk.relieve()?;
    assert!(store.is_writable().await);
    create(&store, "c").await?;
    Ok(())
}
