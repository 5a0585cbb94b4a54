//! The keeper: a small process that stands between a launcher and one rank on the same machine.
//!
//! It is our own program, started anew under the name [`NAME`], with one socket as its stdin. From there it reads the
//! program to run and then orders, one byte each: the number of a signal for all that descends from it. It writes how
//! the program ended. When the launcher goes away, however that happens, or the program ends, everything that is left
//! below gets SIGTERM and soon SIGKILL. `main` asks here first, before it reads arguments or starts a thread: it forks.
//!
//! A keeper is two processes: the inner one does all that, the outer one only waits for it. Both adopt orphans, so
//! whichever of the two is killed, the other finds what the program has started, and kills it.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::Duration,
};

use ronde_process::{Alone, Ended, Fork, Namespaces, Program, become_program, fork, kill};
use rustix::{
    pipe::PipeFlags,
    process::{Pid, Signal},
};
use serde::{Deserialize, Serialize};

use crate::{start::NOTICED_WITHIN, threads};

/// Our program is a keeper when it is called by this name.
pub const NAME: &str = "ronde-keep";
/// Time to end after SIGTERM. Half of what a launcher that was killed may be outlived by.
const GRACE: Duration = Duration::from_secs(1);
const _: () = assert!(GRACE.as_millis() * 2 <= NOTICED_WITHIN.as_millis(), "the rest is for a busy machine");
/// Between two rounds of SIGKILL, for what was made meanwhile.
const AGAIN: Duration = Duration::from_millis(10);
/// A program with its environment; the kernel takes no more than a few megabytes.
const PROGRAM_MAX: usize = 64 << 20;

/// What a program reads that has no input.
pub(crate) const NO_INPUT: &str = "/dev/null";

/// What a keeper is told to run, and the file that it reads from.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept(pub Program, pub PathBuf);

/// What a keeper says at the end: a letter and a number.
pub(crate) const REPORT: usize = 5;

/// Runs a keeper if the arguments ask for one.
pub fn run(args: &[String]) -> Option<ExitCode> {
    matches!(args, [name] if name == NAME).then(|| {
        keep().unwrap_or_else(|error| {
            let _ = writeln!(io::stderr(), "ronde: cannot run the keeper of a rank: {error}");
            ExitCode::FAILURE
        })
    })
}

fn keep() -> io::Result<ExitCode> {
    let alone = Alone::check()?;
    adopt_orphans()?;
    // Nobody writes: the end of it is the end of the process that holds the other end.
    let (outer_ends, outer_lives) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    match fork(alone, Namespaces::default())? {
        Fork::Child => {
            drop(outer_lives);
            keep_inside(alone, File::from(outer_ends))
        }
        Fork::Parent(inner) => {
            let ended = inner.wait()?;
            // What is left is there because the inner process was killed.
            kill::descendants()?;
            drop(outer_lives);
            Ok(ExitCode::from(u8::try_from(ended.exit_code()).unwrap_or(u8::MAX)))
        }
    }
}

fn keep_inside(alone: Alone, outer_ends: File) -> io::Result<ExitCode> {
    let mut launcher = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut kept = read_kept(&mut launcher)?;
    threads::share_cores(&mut kept.0.env, threads::cores());
    adopt_orphans()?;
    match fork(alone, Namespaces::default())? {
        Fork::Child => Ok(begin(&kept)),
        Fork::Parent(child) => {
            let orders = launcher.try_clone()?;
            thread::Builder::new().name("orders".to_owned()).spawn(move || obey(orders))?;
            thread::Builder::new().name("outer".to_owned()).spawn(move || outlive(outer_ends))?;
            reap(child.pid, &mut launcher)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What descends from here becomes a child of this process when its own parent ends.
fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Waits for the end of the outer process, which is that of everything.
fn outlive(mut outer_ends: File) {
    let _ = outer_ends.read(&mut [0]);
    kill_all();
}

/// In the child: leaves the keeper's session and socket behind and becomes the program.
fn begin(Kept(program, stdin): &Kept) -> ExitCode {
    let error = match leave(stdin) {
        Ok(()) => become_program(program),
        Err(error) => error,
    };
    let name = program.argv.first().map_or("", String::as_str);
    let _ = writeln!(io::stderr(), "ronde: cannot run `{name}`: {error}");
    // As shells tell it.
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

fn leave(stdin: &Path) -> io::Result<()> {
    rustix::process::setsid()?;
    // Should the keeper itself be killed, at least the rank goes too.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The socket was our stdin; its copy closes by itself when the program begins. What cannot be opened anew, as a
    // socket cannot, is no input.
    let input = fs_err::File::open(stdin).or_else(|_| fs_err::File::open(NO_INPUT))?;
    rustix::stdio::dup2_stdin(input)?;
    Ok(())
}

/// Waits for all that descends from here; tells the launcher when the program is among it.
fn reap(program: Pid, launcher: &mut UnixStream) -> io::Result<()> {
    while let Some((pid, ended)) = fork::wait_for_any()? {
        if pid == program {
            // If nobody listens any more, the other thread has seen it too.
            let _ = launcher.write_all(&report(ended));
            thread::Builder::new().name("sweep".to_owned()).spawn(stop_all)?;
        }
    }
    Ok(())
}

/// Passes on what the launcher orders; its end is the last order.
fn obey(mut orders: UnixStream) {
    let mut order = [0_u8];
    while orders.read_exact(&mut order).is_ok() {
        match Signal::from_named_raw(i32::from(order[0])) {
            Some(Signal::KILL) => kill_all(),
            Some(signal) => {
                kill::tree(signal);
            }
            None => {}
        }
    }
    stop_all();
}

fn stop_all() {
    kill::tree(Signal::TERM);
    thread::sleep(GRACE);
    kill_all();
}

/// Goes on until the process ends, which it does with its last descendant.
fn kill_all() {
    loop {
        kill::tree(Signal::KILL);
        thread::sleep(AGAIN);
    }
}

fn read_kept(launcher: &mut impl Read) -> io::Result<Kept> {
    let mut size = [0; 4];
    launcher.read_exact(&mut size)?;
    let size = usize::try_from(u32::from_be_bytes(size)).unwrap_or(usize::MAX);
    if size > PROGRAM_MAX {
        return Err(io::Error::other("the program and its environment are too large"));
    }
    let mut text = vec![0; size];
    launcher.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Writes a program as [`read_kept`] reads it.
pub(crate) fn frame(kept: &Kept) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(kept)?;
    let size = u32::try_from(text.len()).map_err(io::Error::other)?;
    Ok([size.to_be_bytes().as_slice(), &text].concat())
}

fn report(ended: Ended) -> [u8; REPORT] {
    let (letter, number) = match ended {
        Ended::Code(code) => (b'c', code),
        Ended::Signal(number) => (b's', number),
    };
    let [a, b, c, d] = number.to_be_bytes();
    [letter, a, b, c, d]
}

/// Reads what [`report`] has written.
pub(crate) fn read_report([letter, a, b, c, d]: [u8; REPORT]) -> Ended {
    let number = i32::from_be_bytes([a, b, c, d]);
    if letter == b's' { Ended::Signal(number) } else { Ended::Code(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for ended in [Ended::Code(0), Ended::Code(255), Ended::Signal(9)] {
            assert_eq!(read_report(report(ended)), ended);
        }
        let program = Program { argv: vec!["a b".into()], env: vec![("A".into(), "ü\n".into())], folder: "/".into() };
        let kept = Kept(program, PathBuf::from("/proc/1/fd/0"));
        let frame = frame(&kept).unwrap();
        assert_eq!(read_kept(&mut frame.as_slice()).unwrap(), kept);
        assert!(read_kept(&mut [255_u8; 8].as_slice()).is_err());
    }
}
