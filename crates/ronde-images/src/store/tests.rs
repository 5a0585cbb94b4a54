//! Images that go in, come out, and are removed; archives made by this crate itself.

use std::{collections::BTreeSet, io};

use super::*;
use crate::{
    archive,
    unpack::{BLOCK, file_header},
};

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        bytes.extend(file_header(name, content.len() as u64));
        bytes.extend(*content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

/// What `docker save` makes of an image with one layer.
fn docker_archive(name: &str, content: &str) -> Vec<u8> {
    let layer = tar(&[("file", content.as_bytes())]);
    let config = serde_json::json!({"config": {"Cmd": ["sh"], "Env": ["A=1"]},
        "rootfs": {"type": "layers", "diff_ids": [Digest::of_bytes(&layer).to_string()]}});
    let list = serde_json::json!([{"Config": "c.json", "RepoTags": [name], "Layers": ["l/layer.tar"]}]);
    let (config, list) = (config.to_string(), list.to_string());
    tar(&[("l/layer.tar", &layer), ("c.json", config.as_bytes()), ("manifest.json", list.as_bytes())])
}

fn nothing() -> io::Result<BTreeSet<Digest>> {
    Ok(BTreeSet::new())
}

fn load(store: &Store, bytes: &[u8]) -> Vec<archive::Loaded> {
    archive::load(&mut store.work().unwrap(), archive::Input::Stream(&mut &*bytes), None).unwrap()
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
    let mut work = store.work().unwrap();
    let refused = work.remove(&name("app:1"), &in_use).unwrap_err();
    assert_eq!(refused.to_string(), "image `app:1` is in use by a pod");
    assert_eq!(work.prune(&in_use).unwrap().names, [name("app:2")]);
    assert!(first.layers[0].exists());
    assert_eq!(fs::read_dir(place.path().join("layers")).unwrap().count(), 1);
    let missing = work.remove(&name("app:2"), &nothing).unwrap_err();
    assert_eq!(missing.to_string(), "there is no image `app:2`");
    assert!(work.remove(&name("app:1"), &nothing).unwrap().bytes > 0);
    assert_eq!(fs::read_dir(place.path().join("blobs")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(place.path().join("layers")).unwrap().count(), 0);
}

#[test]
fn what_a_killed_process_left_is_swept() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    fs::create_dir_all(place.path().join("tmp/7/half")).unwrap();
    drop(store.work().unwrap());
    assert_eq!(fs::read_dir(place.path().join("tmp")).unwrap().count(), 0);
}

#[test]
fn content_that_is_not_what_it_is_called_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path());
    let mut work = store.work().unwrap();
    let error = work.put_blob(&mut &b"wrong"[..], Some(Digest::of_bytes(b"right"))).unwrap_err();
    assert!(matches!(error, StoreError::Digest(_)), "{error}");
    assert!(!work.has_blob(Digest::of_bytes(b"wrong")));
}
