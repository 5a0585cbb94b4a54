//! What a flattened copy shows is what the kernel's overlay shows. Where no overlay can be mounted, the tables remain.

use std::{path::PathBuf, process::Command};

use proptest::prelude::*;

use super::*;
use crate::{
    Manifest,
    testing::{Entry, archive, skip},
    unpack::{Options, unpack},
};

/// Prints everything that a program can see of a tree, in order.
const SHOW: &str = r#"cd "$1" && export LC_ALL=C &&
    { find . ! -type f -printf '%P %y %m %U %G %T@ %l\n'; find . -type f -printf '%P %y %m %U %G %s %T@ ' -exec cat {} \; -printf '\n'; } | sort"#;
const MOUNT: &str = r#"mount -t overlay overlay -o "lowerdir=$2" "$1" && "#;

/// Layers, the lowest first, unpacked in a folder.
fn layers(place: &Path, layers: &[Vec<Entry<'_>>]) -> Image {
    let mut folders = Vec::new();
    for (number, entries) in layers.iter().enumerate() {
        let folder = place.join(format!("layer-{number}"));
        fs_err::create_dir(&folder).unwrap();
        // Some of what a random layer has contradicts itself, and is refused: then there is less in it.
        let _ = unpack(&mut archive(entries).as_slice(), &folder, Options::of_caller());
        folders.push(folder);
    }
    let manifest =
        serde_json::json!({"schemaVersion": 2, "config": {"digest": crate::Digest::of_bytes(b""), "size": 0}});
    Image {
        names: Vec::new(),
        digest: crate::Digest::of_bytes(b""),
        manifest: Manifest::parse(manifest.to_string().as_bytes()).unwrap(),
        config: crate::ImageConfig::default(),
        layers: folders,
    }
}

fn flattened(place: &Path, image: &Image) -> PathBuf {
    let into = place.join("flat");
    fs_err::create_dir(&into).unwrap();
    Store::new(place).flatten(image, &into).unwrap();
    into
}

fn run(script: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("unshare").args(["-m", "sh", "-c", script, "sh"]).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// What the kernel shows of the layers. One more, empty, because a single one cannot be mounted.
fn mounted(place: &Path, image: &Image) -> Result<String, String> {
    for folder in ["mounted", "empty"] {
        fs_err::create_dir(place.join(folder)).unwrap();
    }
    let lowest = place.join("empty");
    let lowers: Vec<&str> = image.layers.iter().rev().chain([&lowest]).filter_map(|path| path.to_str()).collect();
    run(&format!("{MOUNT}{SHOW}"), &[place.join("mounted").to_str().unwrap(), &lowers.join(":")])
}

fn check(what: &str, from: &[Vec<Entry<'_>>], expected: &[(&str, Option<&str>)]) {
    let place = tempfile::tempdir().unwrap();
    let into = flattened(place.path(), &layers(place.path(), from));
    for (path, content) in expected {
        assert_eq!(fs_err::read_to_string(into.join(path)).ok().as_deref(), *content, "{what}: {path}");
    }
}

#[test]
fn upper_layers_win() {
    check("a file is replaced", &[vec![(b'0', "a", "1")], vec![(b'0', "a", "2")]], &[("a", Some("2"))]);
    check(
        "a file is hidden",
        &[vec![(b'0', "d/a", "1"), (b'0', "d/b", "1")], vec![(b'0', "d/.wh.a", "")]],
        &[("d/a", None), ("d/b", Some("1"))],
    );
    check(
        "a folder is opaque",
        &[vec![(b'0', "d/a", "1")], vec![(b'0', "d/.wh..wh..opq", ""), (b'0', "d/b", "2")]],
        &[("d/a", None), ("d/b", Some("2"))],
    );
    check("a file for a folder", &[vec![(b'0', "d/a", "1")], vec![(b'0', "d", "2")]], &[("d", Some("2"))]);
    check(
        "a folder for a link",
        &[vec![(b'5', "x", ""), (b'2', "d", "x")], vec![(b'5', "d", ""), (b'0', "d/a", "2")]],
        &[("d/a", Some("2")), ("x/a", None)],
    );
    check(
        "hard links",
        &[vec![(b'0', "a", "1"), (b'1', "b", "a")], vec![(b'0', ".wh.a", "")]],
        &[("a", None), ("b", Some("1"))],
    );
}

#[test]
fn a_link_out_of_the_folder_is_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let outside = place.path().join("outside");
    fs_err::create_dir(&outside).unwrap();
    let target = outside.to_str().unwrap();
    let image = layers(place.path(), &[vec![(b'2', "d", target)], vec![(b'5', "d", ""), (b'0', "d/a", "1")]]);
    let into = flattened(place.path(), &image);
    assert_eq!(fs_err::read_to_string(into.join("d/a")).unwrap(), "1");
    assert_eq!(fs_err::read_dir(&outside).unwrap().count(), 0);
}

/// A random entry: what it is, and which of a few names it has, so that layers meet.
fn entry() -> impl Strategy<Value = (u8, &'static str, &'static str)> {
    let path = prop::sample::select(vec!["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/f", "d/e/f/a"]);
    let hidden = prop::sample::select(vec![
        ".wh.a",
        ".wh.d",
        "d/.wh.a",
        "d/.wh.e",
        "d/.wh..wh..opq",
        "d/e/.wh..wh..opq",
        "d/e/.wh.f",
    ]);
    let content = prop::sample::select(vec!["", "1", "two"]);
    prop_oneof![
        4 => (Just(b'0'), path.clone(), content),
        3 => (Just(b'5'), path.clone(), Just("")),
        1 => (Just(b'2'), path.clone(), Just("d/e")),
        1 => (Just(b'1'), path.clone(), Just("a")),
        1 => (Just(b'6'), path.clone(), Just("")),
        1 => (Just(b'3'), path, Just("")),
        3 => (Just(b'0'), hidden, Just("")),
    ]
}

#[test]
fn a_copy_shows_what_the_overlay_shows() {
    let place = tempfile::tempdir().unwrap();
    if let Err(reason) = mounted(place.path(), &layers(place.path(), &[vec![(b'0', "a", "1")]])) {
        return skip(&format!("no overlay can be mounted: {}", reason.trim()));
    }
    let cases = prop::collection::vec(prop::collection::vec(entry(), 0..8), 1..5);
    proptest!(ProptestConfig::with_cases(48), |(random in cases)| {
        let place = tempfile::tempdir().unwrap();
        let image = layers(place.path(), &random);
        let into = flattened(place.path(), &image);
        let shown = run(SHOW, &[into.to_str().unwrap()]).unwrap();
        prop_assert_eq!(shown, mounted(place.path(), &image).unwrap());
    });
}
