//! Archives made by hand, honest and hostile, and what becomes of them.

use std::{
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
};

use proptest::prelude::*;

use super::*;

/// One entry of an archive: kind, path, content or target.
type Entry<'a> = (u8, &'a str, &'a str);

fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, path, content) in entries {
        let is_file = *kind == b'0';
        let mut header = file_header(path, if is_file { content.len() as u64 } else { 0 });
        header[156] = *kind;
        if !is_file {
            header[157..157 + content.len()].copy_from_slice(content.as_bytes());
        }
        if *kind == b'5' {
            header[100..108].copy_from_slice(b"0000755\0");
        }
        header[148..156].copy_from_slice(b"        ");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend(header);
        if is_file {
            bytes.extend(content.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

fn options() -> Options {
    Options { entries_max: 100, bytes_max: 10_000, ..Options::of_caller() }
}

/// Unpacks and lists what is there, or says why not. Nothing may appear beside the folder.
fn check(what: &str, entries: &[Entry<'_>], expected: &str) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("layer");
    fs_err::create_dir(&folder).unwrap();
    fs_err::write(place.path().join("outside"), "untouched").unwrap();
    let shown = match unpack(&mut archive(entries).as_slice(), &folder, options()) {
        Ok(_) => show(&folder, "").join(", "),
        Err(error) => error.to_string(),
    };
    assert_eq!(shown, expected, "{what}");
    assert_eq!(fs_err::read_to_string(place.path().join("outside")).unwrap(), "untouched", "{what}");
    assert_eq!(fs_err::read_dir(place.path()).unwrap().count(), 2, "{what}");
}

fn show(folder: &Path, above: &str) -> Vec<String> {
    let mut entries: Vec<_> = fs_err::read_dir(folder).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(fs_err::DirEntry::file_name);
    let mut shown = Vec::new();
    for entry in entries {
        let path = format!("{above}{}", entry.file_name().to_string_lossy());
        let meta = entry.path().symlink_metadata().unwrap();
        if meta.is_dir() {
            let name = if options().as_root { "trusted.overlay.opaque" } else { "user.overlay.opaque" };
            let is_opaque = rustix::fs::getxattr(entry.path(), name, &mut [0; 8]).is_ok();
            shown.push(format!("{path}/{}", if is_opaque { " (opaque)" } else { "" }));
            shown.extend(show(&entry.path(), &format!("{path}/")));
        } else if meta.is_symlink() {
            shown.push(format!("{path} -> {}", fs_err::read_link(entry.path()).unwrap().display()));
        } else if meta.file_type().is_char_device() {
            shown.push(format!("{path} (hidden {})", meta.rdev()));
        } else {
            shown.push(format!("{path}={}", fs_err::read_to_string(entry.path()).unwrap()));
        }
    }
    shown
}

#[test]
fn entries_become_files() {
    check("a file", &[(b'0', "a", "1")], "a=1");
    check("folders are made", &[(b'0', "./x/y/a", "1")], "x/, x/y/, x/y/a=1");
    check("the last one of a name counts", &[(b'0', "a", "1"), (b'0', "a", "2")], "a=2");
    check("a file for a link", &[(b'2', "a", "b"), (b'0', "a", "2")], "a=2");
    check("a folder twice", &[(b'5', "d", ""), (b'0', "d/a", "1"), (b'5', "d/", "")], "d/, d/a=1");
    check("a hard link", &[(b'0', "d/a", "1"), (b'1', "b", "d/a")], "b=1, d/, d/a=1");
    check(
        "through a link inside",
        &[(b'5', "usr", ""), (b'2', "l", "usr"), (b'0', "l/a", "1")],
        "l -> usr, usr/, usr/a=1",
    );
    check(
        "an absolute link is of the image",
        &[(b'5', "r", ""), (b'2', "l", "/r"), (b'0', "l/a", "1")],
        "l -> /r, r/, r/a=1",
    );
    check("an absolute path is of the image", &[(b'0', "/a", "1")], "a=1");
}

#[test]
fn whiteouts_become_marks_of_the_overlay() {
    check("a file is hidden", &[(b'0', "d/.wh.a", "")], "d/, d/a (hidden 0)");
    check("a folder is hidden", &[(b'0', "d/.wh..wh..opq", ""), (b'0', "d/a", "1")], "d/ (opaque), d/a=1");
    check("hidden and made anew", &[(b'0', ".wh.d", ""), (b'5', "d", "")], "d/ (opaque)");
    check("made anew and hidden", &[(b'5', "d", ""), (b'0', ".wh.d", "")], "d/ (opaque)");
    check("a file hidden and made anew", &[(b'0', ".wh.a", ""), (b'0', "a", "1")], "a=1");
    check("notes of an old file system", &[(b'0', ".wh..wh.plnk", "")], "");
    let out = "the archive has an entry with the path `.wh...`, which leads out of the image";
    check("the folder above", &[(b'0', ".wh...", "")], out);
}

#[test]
fn hostile_archives_are_refused() {
    let out = |path: &str| format!("the archive has an entry with the path `{path}`, which leads out of the image");
    check("up and out", &[(b'0', "../outside", "1")], &out("../outside"));
    check("up and out from below", &[(b'0', "a/../../outside", "1")], &out("a/../../outside"));
    check("out by a link", &[(b'2', "l", "../.."), (b'0', "l/outside", "1")], "l -> ../.., outside=1");
    let dangling = "cannot unpack `l/b`: File exists (os error 17)";
    check("into a link to nowhere", &[(b'2', "l", "../x"), (b'0', "l/b", "1")], dangling);
    let hard = "cannot unpack `h`: the link leads out of the image";
    check("a hard link out", &[(b'1', "h", "../outside")], hard);
    check(
        "a file over a full folder",
        &[(b'0', "d/a", "1"), (b'0', "d", "1")],
        "cannot unpack `d`: Directory not empty (os error 39)",
    );
    check("a link is replaced, not followed", &[(b'2', "l", "../outside"), (b'0', "l", "1")], "l=1");
    let many = vec![(b'0', "a", ""); 101];
    check("too many", &many, "the archive has more than 100 entries");
    let large = "x".repeat(6000);
    check("too large", &[(b'0', "a", &large), (b'0', "b", &large)], "the archive unpacks to more than 10000 bytes");
}

#[test]
fn what_is_cut_off_is_refused() {
    let whole = archive(&[(b'0', "a", "content")]);
    for length in [0, 100, 512, 515, 1024, 1030] {
        let place = tempfile::tempdir().unwrap();
        let error = unpack(&mut &whole[..length], place.path(), options()).unwrap_err();
        assert!(error.to_string().contains("cut off"), "{length}: {error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_or_leave_the_folder(bytes: Vec<u8>, at in 0_usize..1500, paths in prop::collection::vec("[./a-c]{1,12}", 1..6)) {
        let kinds = [b'0', b'1', b'2', b'5', b'6', b'x', b'L'];
        let entries: Vec<Entry<'_>> =
            paths.iter().enumerate().map(|(n, path)| (kinds[(n + at) % kinds.len()], path.as_str(), "../b")).collect();
        let mut archive = archive(&entries);
        let at = at.min(archive.len());
        archive.splice(at..at, bytes);
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("layer");
        fs_err::create_dir(&folder).unwrap();
        let _ = unpack(&mut archive.as_slice(), &folder, options());
        prop_assert_eq!(fs_err::read_dir(place.path()).unwrap().count(), 1);
    }
}
