//! Layers: whatever the archive, nothing appears beside the folder, and nothing beside it changes.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use ronde_images::unpack::{Options, unpack};

#[path = "../tar.rs"]
mod tar;

fuzz_target!(|bytes: &[u8]| {
    let place = tar::Place::new();
    let folder = place.0.join("layer");
    fs::create_dir(&folder).expect("a folder");
    fs::write(place.0.join("outside"), "untouched").expect("a file");
    let options = Options { entries_max: 64, bytes_max: 1 << 20, ..Options::of_caller() };
    let _ = unpack(&mut tar::mend(bytes).as_slice(), &folder, options);
    assert_eq!(fs::read_to_string(place.0.join("outside")).expect("it is there"), "untouched");
    assert_eq!(fs::read_dir(&place.0).expect("it is there").count(), 2);
});
