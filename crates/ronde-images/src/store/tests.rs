//! Images that go in, come out, and are removed; archives made by this crate itself.

use std::{collections::BTreeSet, io};

use super::*;
use crate::{
    Descriptor, archive,
    testing::{docker_archive, tar},
};

fn nothing() -> io::Result<BTreeSet<Digest>> {
    Ok(BTreeSet::new())
}

fn load(store: &Store, bytes: &[u8]) -> Vec<archive::Loaded> {
    archive::load(&store.adding().unwrap(), archive::Input::Stream(&mut &*bytes), None, &Quiet).unwrap()
}

fn name(text: &str) -> Reference {
    text.parse().unwrap()
}

#[test]
fn an_image_is_loaded_saved_and_loaded_again() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path().join("one"));
    assert_eq!(store.list().unwrap(), []);
    let loaded = load(&store, &docker_archive("app:1", "hello"));
    let image = store.find(&name("app:1")).unwrap().unwrap();
    assert_eq!(loaded[0].digest, image.digest);
    assert_eq!(image.config.config.cmd, ["sh"]);
    assert_eq!(fs::read_to_string(image.layers[0].join("file")).unwrap(), "hello");
    assert_eq!(store.find(&name("app:2")).unwrap(), None);
    assert_eq!(store.find(&name(&format!("other@{}", image.digest))).unwrap().unwrap().digest, image.digest);

    let mut saved = Vec::new();
    archive::save(&store, &name("app:1"), &mut saved).unwrap();
    let other = Store::new(place.path().join("two"));
    load(&other, &saved);
    assert_eq!(other.find(&name("app:1")).unwrap().unwrap().digest, image.digest);
}

#[test]
fn what_is_used_stays() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    load(&store, &docker_archive("app:1", "one"));
    load(&store, &docker_archive("app:2", "two"));
    let first = store.find(&name("app:1")).unwrap().unwrap();
    let digest = first.digest;
    let in_use = move || Ok(BTreeSet::from([digest]));
    let removing = store.removing().unwrap();
    let refused = removing.remove(&name("app:1"), &in_use).unwrap_err();
    assert_eq!(refused.to_string(), "image `app:1` is in use by a pod");
    assert_eq!(removing.prune(&in_use).unwrap().names, [name("app:2")]);
    assert!(first.layers[0].exists());
    assert_eq!(fs::read_dir(place.path().join("layers")).unwrap().count(), 1);
    let missing = removing.remove(&name("app:2"), &nothing).unwrap_err();
    assert_eq!(missing.to_string(), "there is no image `app:2`");
    assert!(removing.remove(&name("app:1"), &nothing).unwrap().bytes > 0);
    assert_eq!(fs::read_dir(place.path().join("blobs")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(place.path().join("layers")).unwrap().count(), 0);
}

#[test]
fn nothing_is_removed_while_somebody_adds() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    let adding = store.adding().unwrap();
    assert!(store.try_removing().unwrap().is_none());
    drop(adding);
    let removing = store.try_removing().unwrap();
    assert!(removing.is_some() && store.try_removing().unwrap().is_none());
}

#[test]
fn what_a_killed_process_left_is_swept() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    let left = ["tmp/7/half", "locks/x", "unsynced/an-earlier-boot/layer"].map(|path| place.path().join(path));
    for path in &left {
        fs::create_dir_all(path).unwrap();
    }
    drop(store.adding().unwrap());
    assert!(left.iter().all(|path| !path.exists()));
    // Not while somebody else is at work.
    let first = store.adding().unwrap();
    fs::create_dir_all(&left[0]).unwrap();
    drop(store.adding().unwrap());
    assert!(left[0].exists());
    drop(first);
    drop(store.removing().unwrap());
    assert!(!left[0].exists());
}

#[test]
fn content_that_is_not_what_it_is_called_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    let adding = store.adding().unwrap();
    let error = adding.put_blob(&mut &b"wrong"[..], Some(Digest::of_bytes(b"right"))).unwrap_err();
    assert!(matches!(error, StoreError::Digest(_)), "{error}");
    assert!(!adding.has_blob(Digest::of_bytes(b"wrong")));
    assert_eq!(fs::read_dir(place.path().join("tmp")).unwrap().count(), 0);
}

fn part(content: &[u8]) -> Descriptor {
    let text = serde_json::json!({"digest": Digest::of_bytes(content), "size": content.len()});
    serde_json::from_value(text).unwrap()
}

#[test]
fn a_download_goes_on_where_it_ended() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    let content = b"the content of a blob";
    let part = part(content);
    let mut download = store.adding().unwrap().download(&part).unwrap().unwrap();
    download.write(&content[..4]).unwrap();
    let error = download.finish().unwrap_err();
    assert!(matches!(error, StoreError::Digest(digest::Error::TooShort { .. })), "{error}");

    let adding = store.adding().unwrap();
    let mut download = adding.download(&part).unwrap().unwrap();
    assert_eq!(download.offset(), 4);
    download.write(&content[4..]).unwrap();
    let error = download.write(b"more").unwrap_err();
    assert!(matches!(error, StoreError::Digest(digest::Error::TooLong { .. })), "{error}");
    download.finish().unwrap();
    assert_eq!(fs::read(store.blob(part.digest)).unwrap(), content);
    assert!(adding.download(&part).unwrap().is_none());
    assert_eq!(fs::read_dir(place.path().join("downloads")).unwrap().count(), 0);
}

#[test]
fn a_download_with_wrong_content_begins_anew() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    let adding = store.adding().unwrap();
    let part = part(b"right");
    let mut download = adding.download(&part).unwrap().unwrap();
    download.write(b"wro").unwrap();
    download.restart().unwrap();
    assert_eq!(download.offset(), 0);
    download.write(b"wrong").unwrap();
    assert!(download.finish().is_err());
    // Longer than it should be: left by whoever said another size.
    fs::write(place.path().join("downloads").join(part.digest.hex()), "righter").unwrap();
    let mut download = adding.download(&part).unwrap().unwrap();
    assert_eq!(download.offset(), 0);
    download.write(b"right").unwrap();
    download.finish().unwrap();
    assert!(adding.has_blob(part.digest));
}

#[test]
fn who_comes_second_waits_and_finds_the_content() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    let part = part(b"right");
    let fetched: usize = std::thread::scope(|scope| {
        let fetch = || {
            let adding = store.adding().unwrap();
            let Some(mut download) = adding.download(&part).unwrap() else { return 0 };
            for byte in b"right" {
                download.write(&[*byte]).unwrap();
                std::thread::yield_now();
            }
            download.finish().unwrap();
            1
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(fetch)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(fetched, 1);
}

#[test]
fn many_load_at_once() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    std::thread::scope(|scope| {
        for number in 0..8 {
            let store = &store;
            // Two each have the same layer.
            scope.spawn(move || load(store, &docker_archive(&format!("app:{number}"), &(number / 2).to_string())));
        }
    });
    let images = store.list().unwrap();
    assert_eq!(images.iter().map(|image| image.names.len()).sum::<usize>(), 8);
    assert_eq!(fs::read_dir(place.path().join("layers")).unwrap().count(), 4);
    for image in &images {
        assert!(image.read_file("file").is_some(), "{:?}", image.names);
    }
    assert_eq!(fs::read_dir(place.path().join("tmp")).unwrap().count(), 0);
}

#[test]
fn an_image_without_its_layers_gets_no_name() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    let digest = load(&store, &docker_archive("app:1", "one"))[0].digest;
    let image = store.get(digest).unwrap();
    fs::remove_dir_all(&image.layers[0]).unwrap();
    let adding = store.adding().unwrap();
    let error = adding.name(digest, &[name("app:2")]).unwrap_err();
    assert!(matches!(error, StoreError::Layer(_)), "{error}");
    adding.unpack_all(digest, &Quiet).unwrap();
    adding.name(digest, &[name("app:2")]).unwrap();
    assert!(image.layers[0].exists());
}

#[test]
fn what_was_used_last_stays_longest() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    for text in ["one", "two", "three"] {
        load(&store, &docker_archive(&format!("app:{text}"), text));
    }
    let digest = |text: &str| store.find(&name(&format!("app:{text}"))).unwrap().unwrap().digest;
    // `two` is the oldest, `one` is in use, and `three` was used last.
    for (text, seconds) in [("two", 1), ("one", 2), ("three", 3)] {
        let used = fs::File::options().write(true).open(place.path().join("used").join(digest(text).hex())).unwrap();
        used.file().set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
    }
    let one = digest("one");
    let in_use = move || Ok(BTreeSet::from([one]));
    let left = || -> Vec<String> { store.list().unwrap().iter().map(|image| image.names[0].familiar()).collect() };

    assert!(store.collect_oldest(1, &in_use).unwrap().names.is_empty(), "packed layers go first");
    assert_eq!(left(), ["app:one", "app:three", "app:two"]);
    let refused = archive::save(&store, &name("app:two"), &mut Vec::new()).unwrap_err();
    assert!(matches!(refused, archive::ArchiveError::Unpacked(_)), "{refused}");
    archive::save(&store, &name("app:three"), &mut Vec::new()).unwrap();

    let packed: u64 = store.sizes().unwrap().values().map(|size| size.own).sum();
    assert_eq!(store.collect_oldest(12 << 10, &in_use).unwrap().names, [name("app:two")], "of {packed} bytes");
    let removed = store.collect_oldest(u64::MAX, &in_use).unwrap();
    assert_eq!(removed.names, [name("app:three")]);
    assert_eq!(left(), ["app:one"]);
    assert_eq!(store.find(&name("app:one")).unwrap().unwrap().read_file("file").unwrap(), "one");
    assert_eq!(fs::read_dir(place.path().join("used")).unwrap().count(), 1);
    // What was removed can come again.
    load(&store, &docker_archive("app:one", "one"));
    archive::save(&store, &name("app:one"), &mut Vec::new()).unwrap();
}

#[test]
fn sizes_tell_what_images_share() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    load(&store, &docker_archive("app:1", &"x".repeat(100_000)));
    let alone = store.sizes().unwrap().values().next().copied().unwrap();
    assert_eq!((alone.shared, alone.own), (0, alone.total));
    assert!(alone.total >= 200_000, "{alone:?}: packed and unpacked");
    let first = store.find(&name("app:1")).unwrap().unwrap();
    // The same layer with another configuration.
    let mut config: serde_json::Value =
        serde_json::from_slice(&fs::read(store.blob(first.manifest.config.digest)).unwrap()).unwrap();
    config["config"]["Cmd"] = "other".into();
    let layer = fs::read(store.blob(first.manifest.layers[0].digest)).unwrap();
    let config = config.to_string().replace("\"other\"", "[\"other\"]");
    let list = serde_json::json!([{"Config": "c.json", "RepoTags": ["app:2"], "Layers": ["l"]}]).to_string();
    load(&store, &tar(&[("c.json", config.as_bytes()), ("l", &layer), ("manifest.json", list.as_bytes())]));
    let sizes = store.sizes().unwrap();
    assert_eq!(sizes.len(), 2);
    for size in sizes.values() {
        assert_eq!(size.total, size.shared + size.own);
        assert!(size.shared >= 200_000 && size.own < 50_000, "{size:?}");
    }
    let removed = store.removing().unwrap().prune(&nothing).unwrap();
    assert!(removed.bytes >= 200_000, "{removed:?}");
}
