//! What is in the files after a container has spoken.

use std::fmt::Write as _;

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::logs::record::Record;

const TIME: &str = "2026-11-15T22:00:00.000000000Z";

fn now() -> Timestamp {
    TIME.parse().expect("a time")
}

fn lines(folder: &Path, attempt: u32, age: u32) -> Vec<String> {
    let text = fs_err::read(file_path(folder, attempt, age)).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with(b"\n"), "the last record is whole");
    let line = |line: &[u8]| String::from_utf8_lossy(line).replace(TIME, "T");
    text.split_inclusive(|byte| *byte == b'\n').map(|text| line(&text[..text.len() - 1])).collect()
}

fn check(name: &str, chunks: &[(Output, &str)], expected: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut log = LogWriter::new(folder.path(), 3);
    for (output, chunk) in chunks {
        log.write(*output, chunk.as_bytes(), now());
    }
    log.finish(now());
    assert_eq!(lines(folder.path(), 3, 0), expected, "{name}");
}

#[test]
fn chunks_become_lines() {
    use Output::{Stderr, Stdout};
    check("silence", &[], &[]);
    check("two lines in one chunk", &[(Stdout, "a\nb\n")], &["T stdout F a", "T stdout F b"]);
    check("empty lines count", &[(Stdout, "\n\n")], &["T stdout F ", "T stdout F "]);
    check("a line in three chunks", &[(Stdout, "a"), (Stdout, "b"), (Stdout, "c\n")], &["T stdout F abc"]);
    let both = [(Stdout, "a"), (Stderr, "x\n"), (Stdout, "b\n")];
    check("each output keeps its own open line", &both, &["T stderr F x", "T stdout F ab"]);
    check(
        "what is left at the end",
        &[(Stdout, "a\nb"), (Stderr, "c")],
        &["T stdout F a", "T stdout P b", "T stderr P c"],
    );
}

#[test]
fn long_lines_are_written_in_parts() {
    let part = "x".repeat(PART_BYTES_MAX);
    let line = format!("{part}{part}yz\n");
    let [partial, end] = [format!("T stdout P {part}"), "T stdout F yz".to_owned()];
    check("in one chunk", &[(Output::Stdout, &line)], &[&partial, &partial, &end]);
    let (before, after) = line.split_at(20_000);
    check("in two chunks", &[(Output::Stdout, before), (Output::Stdout, after)], &[&partial, &partial, &end]);
    let exact = format!("{part}\n");
    check("of the very size of a part", &[(Output::Stdout, &exact)], &[&partial.replace(" P ", " F ")]);
}

#[test]
fn files_are_made_older_and_the_oldest_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut log = LogWriter::new(folder.path(), 0);
    log.limits = Limits { file_bytes: 200, files: 3 };
    let mut chunk = String::new();
    (0..20).for_each(|number| writeln!(chunk, "line {number:02}").expect("memory"));
    log.write(Output::Stdout, chunk.as_bytes(), now());
    log.finish(now());
    let kept: Vec<String> = (0..4).rev().flat_map(|age| lines(folder.path(), 0, age)).collect();
    let expected: Vec<String> = (8..20).map(|number| format!("T stdout F line {number:02}")).collect();
    assert_eq!(kept, expected, "the newest lines, each once, in order");
    assert!(lines(folder.path(), 0, 3).is_empty(), "three files at most");
}

#[test]
fn a_log_is_gone_on_with() {
    let folder = tempfile::tempdir().expect("a folder");
    for text in ["a\n", "b\n"] {
        let mut log = LogWriter::new(folder.path(), 0);
        log.write(Output::Stdout, text.as_bytes(), now());
    }
    assert_eq!(lines(folder.path(), 0, 0), ["T stdout F a", "T stdout F b"]);
}

#[test]
fn only_this_run_and_the_previous_one_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["7.log", "8.log", "8.log.1", "9.log", "9.log.1", "10.log", "notes"] {
        fs_err::write(folder.path().join(name), "").expect("a file");
    }
    drop(LogWriter::new(folder.path(), 10));
    let mut left: Vec<_> =
        fs_err::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    left.sort();
    assert_eq!(left, ["10.log", "9.log", "9.log.1", "notes"]);
}

#[test]
fn a_full_disk_costs_lines_and_the_log_says_how_many() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_path(folder.path(), 0, 0);
    std::os::unix::fs::symlink("/dev/full", &path).expect("a link");
    let mut log = LogWriter::new(folder.path(), 0);
    log.write(Output::Stdout, b"lost\nlost\n", now());
    log.write(Output::Stdout, b"lost\n", now());
    fs_err::remove_file(&path).expect("a file");
    log.write(Output::Stdout, b"back\n", now());
    log.write(Output::Stdout, b"again\n", now());
    let note = lines(folder.path(), 0, 0);
    let [first, rest @ ..] = note.as_slice() else { panic!("{note:?}") };
    assert_eq!(first, "T stderr F [3 lines of this log are missing: No space left on device (os error 28)]");
    assert_eq!(rest, ["T stdout F back", "T stdout F again"]);
}

#[test]
fn a_folder_that_is_not_there_loses_nothing_but_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("later");
    let mut log = LogWriter::new(&inner, 0);
    log.write(Output::Stdout, b"lost\n", now());
    fs_err::create_dir(&inner).expect("a folder");
    log.write(Output::Stdout, b"back\n", now());
    assert_eq!(lines(&inner, 0, 0).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_it_is_cut_the_text_comes_back(
        chunks in vec(prop_oneof![vec(any::<u8>(), 0..100), vec(Just(b'x'), 0..40_000), Just(b"\n".to_vec())], 0..12),
        file_bytes in 50_000_u64..200_000,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = LogWriter::new(folder.path(), 0);
        log.limits = Limits { file_bytes, files: 20 };
        chunks.iter().for_each(|chunk| log.write(Output::Stdout, chunk, now()));
        log.finish(now());
        let mut text = Vec::new();
        for age in (0..20).rev() {
            let file = fs_err::read(file_path(folder.path(), 0, age)).unwrap_or_default();
            assert!(file.len() as u64 <= file_bytes);
            for line in file.split_inclusive(|byte| *byte == b'\n') {
                let record = Record::parse(line.strip_suffix(b"\n").expect("a whole record")).expect("a record");
                assert!(record.text.len() <= PART_BYTES_MAX);
                text.extend_from_slice(record.text);
                text.extend(record.is_end.then_some(b'\n'));
            }
        }
        assert_eq!(text, chunks.concat());
    }
}
