//! Archives made by hand, honest and hostile, and what becomes of them.

use std::{
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
};

use proptest::prelude::*;

use super::*;
use crate::testing::{Entry, archive};

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
            let name = if options().rights.is_of_machine() { "trusted.overlay.opaque" } else { "user.overlay.opaque" };
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
fn folders_keep_their_times_whatever_comes_into_them() {
    let place = tempfile::tempdir().unwrap();
    // The header of a folder comes before what is in it, after it, or in between.
    let entries =
        [(b'5', ".", ""), (b'5', "d", ""), (b'0', "d/a", "1"), (b'0', "e/a", "1"), (b'0', "d/a", "2"), (b'5', "e", "")];
    let more = [(b'0', "e/b", "1"), (b'0', "d/.wh.x", "")];
    unpack(&mut archive(&[&entries[..], &more[..]].concat()).as_slice(), place.path(), options()).unwrap();
    for folder in ["", "d", "e"] {
        assert_eq!(fs_err::metadata(place.path().join(folder)).unwrap().mtime(), 0, "`{folder}`");
    }
}

#[test]
fn numbers_are_octal_or_binary() {
    for (what, field, expected) in [
        ("octal", &b"0000755\0"[..], Some(0o755)),
        ("nothing", b"\0\0\0\0\0\0\0\0", Some(0)),
        ("a user of OpenShift, as GNU tar writes it", b"\x80\0\0\0\x3b\xa2\xf1\x20", Some(1_000_534_304)),
        ("twelve bytes", b"\x80\0\0\0\0\0\0\x02\0\0\0\0", Some(2 << 32)),
        ("below zero", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
        ("letters", b"nonsense", None),
    ] {
        assert_eq!(header::number(field).ok(), expected, "{what}");
    }
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

/// A file with holes: 1 MiB of zeros, some content, zeros, some content, zeros.
fn holes() -> Vec<u8> {
    let mut bytes = vec![0; 3 << 20];
    bytes[1 << 20..(1 << 20) + 5000].fill(b'a');
    bytes[2 << 20..(2 << 20) + 9].fill(b'b');
    bytes
}

fn tar(arguments: &[&str], folder: &Path) -> Vec<u8> {
    let made = std::process::Command::new("tar").args(arguments).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

#[test]
fn sparse_files_of_every_format_have_real_holes() {
    let place = tempfile::tempdir().unwrap();
    let source = fs_err::File::create(place.path().join("sparse")).unwrap();
    source.set_len(3 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(source.file(), &holes()[1 << 20..(1 << 20) + 5000], 1 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(source.file(), &holes()[2 << 20..(2 << 20) + 9], 2 << 20).unwrap();
    fs_err::write(place.path().join("plain"), "after it").unwrap();
    let formats: [&[&str]; 4] = [
        &["--format=gnu"],
        &["--format=pax", "--sparse-version=0.0"],
        &["--format=pax", "--sparse-version=0.1"],
        &["--format=pax", "--sparse-version=1.0"],
    ];
    for format in formats {
        let bytes = tar(&[&["-cS"], format, &["sparse", "plain"]].concat(), place.path());
        assert!(bytes.len() < 1 << 20, "{format:?}: tar made no sparse file");
        let folder = tempfile::tempdir().unwrap();
        let options = Options { bytes_max: 4 << 20, ..options() };
        unpack(&mut bytes.as_slice(), folder.path(), options).unwrap();
        assert!(fs_err::read(folder.path().join("sparse")).unwrap() == holes(), "{format:?}");
        assert!(fs_err::metadata(folder.path().join("sparse")).unwrap().blocks() < 200, "{format:?}");
        assert_eq!(fs_err::read_to_string(folder.path().join("plain")).unwrap(), "after it");
        let refused = unpack(&mut bytes.as_slice(), folder.path(), Options { bytes_max: 1 << 20, ..options });
        assert!(matches!(refused, Err(UnpackError::Bytes(_))), "{format:?}");
    }
}

/// An archive with records of pax in front of one entry.
fn with_pax(records: &[(&str, &str)], kind: u8, path: &str) -> Vec<u8> {
    let mut text = String::new();
    for (key, value) in records {
        let rest = format!(" {key}={value}\n");
        let mut length = rest.len() + 1;
        while length.to_string().len() + rest.len() != length {
            length += 1;
        }
        text += &format!("{length}{rest}");
    }
    let mut bytes = archive(&[(b'0', "pax", &text)]);
    bytes[156] = b'x';
    let sum: u64 = bytes[..BLOCK]
        .iter()
        .enumerate()
        .map(|(at, byte)| u64::from(if (148..156).contains(&at) { b' ' } else { *byte }))
        .sum();
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    bytes.truncate(bytes.len() - 2 * BLOCK);
    bytes.extend(archive(&[(kind, path, "")]));
    bytes
}

#[test]
fn pax_says_names_times_and_attributes() {
    let long = format!("{}/file", "folder".repeat(20));
    for (time, seconds, nanoseconds) in
        [("12", 12, 0), ("12.5", 12, 500_000_000), ("-12.25", -13, 750_000_000), ("-3", -3, 0)]
    {
        let records = [("path", long.as_str()), ("mtime", time), ("SCHILY.xattr.user.a", "1"), ("uid", "")];
        let place = tempfile::tempdir().unwrap();
        unpack(&mut with_pax(&records, b'0', "short").as_slice(), place.path(), options()).unwrap();
        let file = place.path().join(&long);
        let meta = fs_err::metadata(&file).unwrap();
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (seconds, nanoseconds), "{time}");
        let mut value = [0; 8];
        match rustix::fs::getxattr(&file, "user.a", &mut value) {
            Ok(length) => assert_eq!(&value[..length], b"1"),
            Err(error) => assert_eq!(error, Errno::OPNOTSUPP),
        }
    }
    for key in ["size", "uid", "gid"] {
        let place = tempfile::tempdir().unwrap();
        let refused = unpack(&mut with_pax(&[(key, "-1")], b'0', "a").as_slice(), place.path(), options());
        assert!(matches!(refused, Err(UnpackError::Read(_))), "{key}");
    }
}

#[test]
fn whiteouts_of_the_overlay_itself_are_taken_too() {
    check("a file is hidden", &[(b'3', "d/a", "")], "d/, d/a (hidden 0)");
    check("hidden and made anew", &[(b'3', "d", ""), (b'5', "d", "")], "d/ (opaque)");
    for key in ["SCHILY.xattr.trusted.overlay.opaque", "SCHILY.xattr.user.overlay.opaque"] {
        let place = tempfile::tempdir().unwrap();
        unpack(&mut with_pax(&[(key, "y")], b'5', "d").as_slice(), place.path(), options()).unwrap();
        assert_eq!(show(place.path(), ""), ["d/ (opaque)"], "{key}");
    }
    let place = tempfile::tempdir().unwrap();
    let records = [("SCHILY.xattr.trusted.overlay.redirect", "/etc")];
    unpack(&mut with_pax(&records, b'5', "d").as_slice(), place.path(), options()).unwrap();
    let redirect = rustix::fs::getxattr(place.path().join("d"), "trusted.overlay.redirect", &mut [0; 8]);
    assert!(redirect.is_err(), "other marks of the overlay are not taken");
}
