//! Archives of images: whatever the bytes, there are images that are whole or an error, and nothing half-made is left.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use ronde_images::{
    Store,
    archive::{Input, load},
    store::Quiet,
};

#[path = "../tar.rs"]
mod tar;

fuzz_target!(|bytes: &[u8]| {
    let place = tar::Place::new();
    let store = Store::new(place.0.join("store"));
    fs::write(place.0.join("outside"), "untouched").expect("a file");
    let adding = store.adding().expect("the store can be used");
    let loaded = load(&adding, Input::Stream(&mut tar::mend(bytes).as_slice()), None, &Quiet);
    let images = store.list().expect("the names can be read");
    assert!(loaded.is_ok() || images.iter().all(|image| image.layers.iter().all(|layer| layer.is_dir())));
    assert_eq!(fs::read_dir(store.folder().join("tmp")).expect("it is there").count(), 0);
    assert_eq!(fs::read_to_string(place.0.join("outside")).expect("it is there"), "untouched");
    assert_eq!(fs::read_dir(&place.0).expect("it is there").count(), 2);
});
