//! What a client gets to see of a log.

use futures::TryStreamExt as _;
use jiff::Timestamp;
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;

use super::*;
use crate::logs::write::LogWriter;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

/// A log of `(second, output, text)`, and lines of garbage where there is no output.
fn log(entries: &[(i64, Option<Output>, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (second, output, text) in entries {
        match output {
            Some(output) => LogWriter::new(folder.path(), 0).write(*output, text.as_bytes(), at(*second)),
            None => {
                let path = file_path(folder.path(), 0, 0);
                let mut before = fs_err::read(&path).unwrap_or_default();
                before.extend_from_slice(text.as_bytes());
                fs_err::write(&path, before).expect("a file");
            }
        }
    }
    folder
}

async fn read_all(folder: &TempDir, options: LogOptions) -> String {
    let (_, ended) = watch::channel(true);
    let source = LogSource { folder: folder.path().to_owned(), attempt: 0, ended };
    let parts: Vec<Bytes> = read(source, options).try_collect().await.expect("a log");
    String::from_utf8(parts.concat()).expect("text")
}

fn three_lines() -> TempDir {
    use Output::{Stderr, Stdout};
    log(&[(10, Some(Stdout), "one\n"), (20, Some(Stderr), "two\n"), (30, Some(Stdout), "three\n")])
}

#[tokio::test]
async fn parts_of_a_log_are_shown_as_asked() {
    let folder = three_lines();
    let none = LogOptions::default();
    let rows = [
        ("all of it", none.clone(), "one\ntwo\nthree\n"),
        ("one output", LogOptions { stream: LogStream::Stderr, ..none.clone() }, "two\n"),
        ("the other", LogOptions { stream: LogStream::Stdout, ..none.clone() }, "one\nthree\n"),
        ("since a time", LogOptions { since: Some(at(20)), ..none.clone() }, "two\nthree\n"),
        ("since later", LogOptions { since: Some(at(31)), ..none.clone() }, ""),
        ("the last two", LogOptions { tail_lines: Some(2), ..none.clone() }, "two\nthree\n"),
        ("more than there is", LogOptions { tail_lines: Some(9), ..none.clone() }, "one\ntwo\nthree\n"),
        ("none of it", LogOptions { tail_lines: Some(0), ..none.clone() }, ""),
        ("some bytes", LogOptions { limit_bytes: Some(6), ..none.clone() }, "one\ntw"),
        ("all bytes", LogOptions { limit_bytes: Some(14), ..none.clone() }, "one\ntwo\nthree\n"),
        (
            "the end of what is since a time",
            LogOptions { since: Some(at(30)), tail_lines: Some(2), ..none.clone() },
            "three\n",
        ),
        (
            "with times",
            LogOptions { timestamps: true, tail_lines: Some(1), ..none.clone() },
            "1970-01-01T00:00:30.000000000Z three\n",
        ),
        ("a run that has ended, followed", LogOptions { follow: true, ..none }, "one\ntwo\nthree\n"),
    ];
    for (name, options, expected) in rows {
        assert_eq!(read_all(&folder, options).await, expected, "{name}");
    }
}

#[tokio::test]
async fn a_log_that_is_not_there_is_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    for follow in [false, true] {
        assert_eq!(read_all(&folder, LogOptions { follow, tail_lines: Some(5), ..LogOptions::default() }).await, "");
    }
}

#[tokio::test]
async fn garbage_is_passed_over() {
    let long = format!("{}\n", "g".repeat(1 << 20));
    let folder = log(&[
        (1, Some(Output::Stdout), "one\n"),
        (0, None, "garbage\n\n\0\0\0 \x01\n"),
        (0, None, &long),
        (2, Some(Output::Stdout), "two\n"),
        (0, None, "1970-01-01T00:00:03Z stdout F torn"),
    ]);
    assert_eq!(read_all(&folder, LogOptions::default()).await, "one\ntwo\ntorn\n");
    let tail = |lines| LogOptions { tail_lines: Some(lines), ..LogOptions::default() };
    assert_eq!(read_all(&folder, tail(3)).await, "one\ntwo\ntorn\n");
    assert_eq!(read_all(&folder, tail(2)).await, "two\ntorn\n");
}

#[tokio::test]
async fn long_lines_are_put_together() {
    let line = "x".repeat(50_000);
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = LogWriter::new(folder.path(), 0);
    writer.write(Output::Stdout, format!("a\n{line}\nb\nunended").as_bytes(), at(0));
    writer.finish(at(0));
    assert_eq!(read_all(&folder, LogOptions::default()).await, format!("a\n{line}\nb\nunended"));
    let tail = |lines| LogOptions { tail_lines: Some(lines), timestamps: true, ..LogOptions::default() };
    let time = "1970-01-01T00:00:00.000000000Z";
    assert_eq!(read_all(&folder, tail(1)).await, format!("{time} unended"));
    assert_eq!(read_all(&folder, tail(3)).await, format!("{time} {line}\n{time} b\n{time} unended"));
}

#[tokio::test]
async fn older_files_come_first_and_a_tail_may_reach_into_them() {
    let folder = tempfile::tempdir().expect("a folder");
    for (age, text) in [(2, "a\nb\n"), (1, "c\nd\n"), (0, "e\n")] {
        let text: String = text.lines().map(|line| format!("1970-01-01T00:00:00Z stdout F {line}\n")).collect();
        fs_err::write(file_path(folder.path(), 0, age), text).expect("a file");
    }
    assert_eq!(read_all(&folder, LogOptions::default()).await, "a\nb\nc\nd\ne\n");
    for (lines, expected) in [(1, "e\n"), (2, "d\ne\n"), (3, "c\nd\ne\n"), (4, "b\nc\nd\ne\n"), (5, "a\nb\nc\nd\ne\n")]
    {
        let options = LogOptions { tail_lines: Some(lines), ..LogOptions::default() };
        assert_eq!(read_all(&folder, options).await, expected, "{lines}");
    }
}

#[test]
fn who_does_not_follow_gets_what_was_there_at_the_beginning() {
    for (tail_lines, expected) in [(None, 20), (Some(18), 18), (Some(30), 20)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = LogWriter::new(folder.path(), 0);
        // More than a block, so that there is something to write between two of them.
        let line = format!("{}\n", "x".repeat(10_000));
        (0..20).for_each(|_| writer.write(Output::Stdout, line.as_bytes(), at(0)));
        let options = LogOptions { tail_lines, ..LogOptions::default() };
        let mut reader = LogReader::new(folder.path().to_owned(), 0, options);
        let mut found = Vec::new();
        while let Read::Some(bytes) = reader.read_some(true).expect("a log") {
            found.extend_from_slice(&bytes);
            writer.write(Output::Stdout, b"late\n", at(0));
        }
        assert_eq!(String::from_utf8(found).expect("text"), line.repeat(expected), "{tail_lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_is_followed_until_its_run_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let (end, ended) = watch::channel(false);
    let source = LogSource { folder: folder.path().to_owned(), attempt: 0, ended };
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let mut stream = std::pin::pin!(read(source, options));
    let mut writer: Option<LogWriter> = None;
    // The third and later lines come after the file has been made older under the reader's hands.
    for number in 0..8 {
        if number > 1 {
            let path = |age| file_path(folder.path(), 0, age);
            let _ = fs_err::rename(path(1), path(2));
            fs_err::rename(path(0), path(1)).expect("a file");
            writer = None;
        }
        let writer = writer.get_or_insert_with(|| LogWriter::new(folder.path(), 0));
        writer.write(Output::Stdout, format!("{number}\n").as_bytes(), at(number));
        let sent = stream.try_next().await.expect("a log").expect("more of it");
        assert_eq!(sent, format!("{number}\n"));
    }
    writer.expect("a writer").write(Output::Stdout, b"bye\n", at(9));
    end.send(true).expect("someone follows");
    assert_eq!(stream.try_next().await.expect("a log"), Some(Bytes::from("bye\n")));
    assert_eq!(stream.try_next().await.expect("a log"), None);
}

#[tokio::test(start_paused = true)]
async fn several_files_may_pass_between_two_looks() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_end, ended) = watch::channel(false);
    let source = LogSource { folder: folder.path().to_owned(), attempt: 0, ended };
    let options = LogOptions { follow: true, limit_bytes: Some(8), ..LogOptions::default() };
    let mut stream = std::pin::pin!(read(source, options));
    let write = |text: &str| LogWriter::new(folder.path(), 0).write(Output::Stdout, text.as_bytes(), at(0));
    write("0\n");
    assert_eq!(stream.try_next().await.expect("a log"), Some(Bytes::from("0\n")));
    write("1\n");
    for number in 2..4 {
        let path = |age| file_path(folder.path(), 0, age);
        let _ = fs_err::rename(path(1), path(2));
        fs_err::rename(path(0), path(1)).expect("a file");
        write(&format!("{number}\n"));
    }
    let rest: Vec<Bytes> = stream.try_collect().await.expect("a log");
    assert_eq!(rest.concat(), b"1\n2\n3\n", "the limit ends it");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_tail_is_the_end_of_the_whole(
        lengths in vec(prop_oneof![3 => 0_usize..20, 1 => 10_000..40_000_usize], 0..40),
        tail in 0_u64..50,
    ) {
        let lines: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = LogWriter::new(folder.path(), 0);
        lines.iter().for_each(|line| writer.write(Output::Stdout, format!("{line}\n").as_bytes(), at(0)));
        let options = LogOptions { tail_lines: Some(tail), ..LogOptions::default() };
        let mut reader = LogReader::new(folder.path().to_owned(), 0, options);
        let mut found = Vec::new();
        while let Read::Some(bytes) = reader.read_some(true).expect("a log") {
            found.extend_from_slice(&bytes);
        }
        let skip = lines.len().saturating_sub(usize::try_from(tail).expect("small"));
        let expected: String = lines.iter().skip(skip).map(|line| format!("{line}\n")).collect();
        assert_eq!(String::from_utf8(found).expect("text"), expected);
    }
}
