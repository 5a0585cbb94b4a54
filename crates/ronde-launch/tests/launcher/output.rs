//! What ranks write, as a user sees it.

use std::{
    io::{self, BufRead as _, BufReader, Read as _},
    process::Stdio,
    time::Duration,
};

use ronde_sim::wait_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{SOON, Sandbox};

#[test]
fn streams_are_kept_apart_and_cut_into_lines() {
    let said = Sandbox::new().run(&["-np", "1"], "printf 'a\\nb'; printf 'e1\\r20%%\\r' >&2");
    assert_eq!(said.stdout, "[0]<stdout>:a\n[0]<stdout>:b\n");
    assert_eq!(said.stderr, "[0]<stderr>:e1\r[0]<stderr>:20%\r");
}

#[test]
fn the_time_of_day_can_stand_in_front() {
    let said = Sandbox::new().run(&["-np", "1", "-prefix-timestamp"], "echo x");
    let (time, rest) = said.stdout.split_once('[').unwrap();
    assert_eq!((time.len(), rest), ("Thu Jan  1 00:00:00 1970".len(), "0]<stdout>:x\n"));
}

#[test]
fn a_folder_gets_a_copy_of_each_stream() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(&["-np", "11", "--output-filename", "logs/all"], "echo out; echo err >&2");
    assert_eq!(said.sorted().len(), 11);
    let read = |name: &str| fs_err::read_to_string(sandbox.path("logs/all").join(name)).unwrap();
    assert_eq!(read("rank.03/stdout"), "[3]<stdout>:out\n");
    assert_eq!(read("rank.10/stderr"), "[10]<stderr>:err\n");
    sandbox.run(&["-np", "1", "--output-filename", "one"], "echo out");
    assert_eq!(fs_err::read_to_string(sandbox.path("one/rank.0/stdout")).unwrap(), "[0]<stdout>:out\n");
}

/// More than the launcher's queue holds, less than what is on the way fits into: the rank has ended before anybody reads.
#[test]
fn who_reads_late_reads_everything() {
    let sandbox = Sandbox::new();
    let line = "yes $(printf '%099d' 7) | head -c 1150000";
    let mut child = sandbox.launcher(&["-np", "1", "sh", "-c", line]).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(6));
    let text = io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert_eq!(text.lines().count(), 11_500);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

const RANKS: usize = 64;
const LINES: usize = 37_500;

/// 64 ranks write 240 MB, a third of it to stderr, and both streams are one pipe whose reader begins late: whole lines,
/// in order within each stream, and a small launcher.
#[test]
fn hundreds_of_megabytes_pass_in_whole_lines_and_little_memory() {
    let sandbox = Sandbox::new();
    let line = format!(
        "awk 'BEGIN {{ for (i = 0; i < {LINES}; i++) \
         if (i % 3) printf(\"%0100d\\n\", i); else printf(\"%0100d\\n\", i) > \"/dev/stderr\" }}'"
    );
    let (reader, writer) = io::pipe().unwrap();
    let mut command = sandbox.launcher(&["-np", &RANKS.to_string(), "--start-timeout", "300", "sh", "-c", &line]);
    let mut child = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
    drop(command);
    // Long enough for ranks to fill everything on the way.
    std::thread::sleep(Duration::from_millis(500));
    let mut next = [[1_usize, 0]; RANKS];
    let (mut reader, mut text) = (BufReader::with_capacity(1 << 20, reader), Vec::new());
    let (mut count, mut peak_kb) = (0, 0);
    while reader.read_until(b'\n', &mut text).unwrap() > 0 {
        let line = std::str::from_utf8(&text).unwrap();
        let (rank, rest) = line.strip_prefix('[').and_then(|line| line.split_once("]<std")).unwrap();
        let (stream, rest) = rest.split_once(">:").unwrap();
        let number: usize = rest.trim_start_matches('0').trim_end().parse().unwrap_or(0);
        let next = &mut next[rank.parse::<usize>().unwrap()][usize::from(stream == "err")];
        assert_eq!((rest.len(), number), (101, *next), "{line}");
        // Every third is for stderr.
        *next += match (stream, number % 3) {
            ("err", _) => 3,
            (_, 2) => 2,
            _ => 1,
        };
        count += 1;
        if count % 100_000 == 0 {
            peak_kb = peak_kb.max(peak(child.id()));
        }
        text.clear();
    }
    assert_eq!(count, RANKS * LINES);
    assert!(child.wait().unwrap().success());
    assert!(peak_kb > 0 && peak_kb < 100 << 10, "the launcher took {peak_kb} kB");
}

/// The most memory that a process has held so far, in kB.
fn peak(pid: u32) -> usize {
    let mut status = String::new();
    let Ok(mut file) = fs_err::File::open(format!("/proc/{pid}/status")) else { return 0 };
    file.read_to_string(&mut status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[test]
fn a_reader_that_leaves_does_not_end_the_job() {
    let sandbox = Sandbox::new();
    let line = "echo first; while ! [ -e gone ]; do sleep 0.02; done; for i in 1 2 3; do echo more; done; touch done";
    let mut command = sandbox.launcher(&["-np", "1", "sh", "-c", line]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    fs_err::write(sandbox.path("gone"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(sandbox.path("done").exists());
}

/// More than fits into a pipe, and less than the launcher holds: the rank ends, and its lines are not all written.
#[test]
fn a_reader_that_stalls_does_not_hold_a_launcher_that_is_asked_to_end() {
    for flags in [["-np", "1"], ["--min-np", "1"]] {
        let sandbox = Sandbox::new();
        let line = "head -c 300000 /dev/zero | tr '\\0' x | fold -w 100; touch done";
        let mut command = sandbox.launcher(&[&flags[..], &["sh", "-c", line]].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let is_alone = || sandbox.processes() == [i32::try_from(child.id()).unwrap()];
        wait_until("the rank has ended", SOON, || (sandbox.path("done").exists() && is_alone()).then_some(()));
        assert!(child.try_wait().unwrap().is_none(), "nobody has read what the rank wrote");
        wait_until("the launcher ends", SOON, || {
            // The first may come while it still looks after the rank.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            child.try_wait().unwrap()
        });
    }
}
