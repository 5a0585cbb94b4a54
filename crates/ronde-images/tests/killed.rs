//! A load that is killed at any moment leaves nothing half-used, and the next one works.
//!
//! The program starts itself as the one that loads, and kills it: twenty times, at moments spread over the whole load.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use ronde_images::{
    Digest, Reference, Store,
    archive::{self, Input},
    store::Quiet,
    unpack::{BLOCK, file_header},
};

const ROUNDS: u32 = 20;
const LAYERS: usize = 3;
const FILES: usize = 150;
const LOAD: &str = "load-this-archive";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, LOAD, store, file] => load(&Store::new(*store), Path::new(file)),
        _ => kill_and_check(),
    }
}

fn load(store: &Store, file: &Path) {
    let mut input = fs_err::File::open(file).expect("the archive is there");
    let adding = store.adding().expect("the store can be used");
    archive::load(&adding, Input::Stream(&mut input), None, &Quiet).expect("the archive can be loaded");
}

#[expect(clippy::disallowed_methods, reason = "how long a load takes decides when it is killed")]
fn kill_and_check() {
    let place = tempfile::tempdir().expect("a folder for the test");
    let file = place.path().join("image.tar");
    fs_err::write(&file, image()).expect("the archive can be written");
    let whole = Store::new(place.path().join("whole"));
    let start = Instant::now();
    assert!(child(&whole, &file).wait().expect("it ends").success());
    let took = start.elapsed();
    check(&whole);
    assert_eq!(whole.list().expect("a list").len(), 1);

    let store = Store::new(place.path().join("killed"));
    for round in 0..ROUNDS {
        let mut child = child(&store, &file);
        // Not to wait for anything: the moment to be killed at.
        std::thread::sleep(took.saturating_sub(Duration::from_millis(1)) * round / ROUNDS);
        child.kill().and_then(|()| child.wait()).expect("it can be killed");
        check(&store);
        // The next one finds what this one left; the one after that begins with nothing.
        if round % 2 == 0 {
            continue;
        }
        load(&store, &file);
        check(&store);
        assert_eq!(store.list().expect("a list").len(), 1);
        assert_eq!(count(&store, "tmp"), 0);
        store.removing().and_then(|removing| removing.prune(&|| Ok(BTreeSet::new()))).expect("it can be removed");
        for folder in ["tmp", "blobs", "layers", "unsynced", "downloads"] {
            assert_eq!(count(&store, folder), 0, "{folder}");
        }
    }
}

fn child(store: &Store, file: &Path) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(LOAD).arg(store.folder()).arg(file).stderr(Stdio::null()).spawn().expect("it can be started")
}

fn count(store: &Store, folder: &str) -> usize {
    fs_err::read_dir(store.folder().join(folder)).map_or(0, Iterator::count)
}

/// What has a name is whole.
fn check(store: &Store) {
    for image in store.list().expect("the names can be read") {
        assert_eq!(image.layers.len(), LAYERS);
        for (layer, folder) in image.layers.iter().enumerate() {
            for number in 0..FILES {
                let path = folder.join(format!("folder-{}/file-{number}", number % 7));
                assert_eq!(
                    fs_err::read(&path).expect("every file is there"),
                    content(layer, number),
                    "{}",
                    path.display()
                );
            }
        }
    }
    for blob in fs_err::read_dir(store.folder().join("blobs")).into_iter().flatten() {
        let blob = blob.expect("an entry");
        let digest = Digest::of_bytes(&fs_err::read(blob.path()).expect("a blob"));
        assert_eq!(blob.file_name().to_str(), Some(digest.hex().as_str()));
    }
}

fn content(layer: usize, number: usize) -> Vec<u8> {
    format!("file {number} of layer {layer}\n").repeat(1 + number * 10).into_bytes()
}

/// An image as `docker save` writes it.
fn image() -> Vec<u8> {
    let layers: Vec<Vec<u8>> = (0..LAYERS)
        .map(|layer| {
            tar((0..FILES).map(|number| (format!("folder-{}/file-{number}", number % 7), content(layer, number))))
        })
        .collect();
    let diff_ids: Vec<Digest> = layers.iter().map(|layer| Digest::of_bytes(layer)).collect();
    let config = serde_json::json!({"rootfs": {"type": "layers", "diff_ids": diff_ids}}).to_string();
    let name: Reference = "app:1".parse().expect("a name");
    let paths: Vec<String> = (0..LAYERS).map(|layer| format!("{layer}.tar")).collect();
    let list = serde_json::json!([{"Config": "c.json", "RepoTags": [name.familiar()], "Layers": paths}]).to_string();
    let files = [("c.json".to_owned(), config.into_bytes()), ("manifest.json".to_owned(), list.into_bytes())];
    tar(files.into_iter().chain(paths.into_iter().zip(layers)))
}

fn tar(files: impl Iterator<Item = (String, Vec<u8>)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        bytes.extend(file_header(&name, content.len() as u64));
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}
