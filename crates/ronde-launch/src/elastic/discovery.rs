//! Finds out which hosts the job may use: by a program that prints them, again and again, or by a file that is watched.
//!
//! A program is given a time and a length of output, and a keeper, as ranks are: it ends with all that it started, also
//! when the launcher is killed. A file is read when it changes, so a change is known within [`GLANCE`]. What is wrong
//! with either is told in words; the driver decides what follows.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::mpsc,
    time,
};

use super::model::{Event, HostSlots};
use crate::{
    hosts,
    keep::NO_INPUT,
    start::{
        Ended, Program,
        local::{Local, Output},
    },
};

/// Horovod's interval between two looks.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Between two glances at a file.
const GLANCE: Duration = Duration::from_millis(50);
/// More hosts than fit in here are not in one place.
const OUTPUT_MAX: usize = 1024 * 1024;
/// Of what a program says when it fails.
const ERROR_MAX: usize = 400;

/// Where the hosts come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// They stay as they are.
    Fixed(Vec<HostSlots>),
    Script(Script),
}

/// A program that prints `host` or `host:slots` in each line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// As it was given: a line of shell, as in the original.
    pub command: String,
    /// Its whole environment, and where it runs.
    pub environment: BTreeMap<String, String>,
    pub directory: PathBuf,
    /// For hosts without a number.
    pub slots_default: Option<usize>,
    /// A file that changes whenever the program would print something else.
    pub file: Option<PathBuf>,
    pub interval: Duration,
    /// A program that takes longer is stopped.
    pub patience: Duration,
}

/// Looks for hosts for ever, and tells of every look.
pub(super) async fn watch(source: Source, events: mpsc::Sender<Event>) {
    match source {
        Source::Fixed(hosts) => {
            let _ = events.send(Event::Hosts(hosts)).await;
        }
        Source::Script(script) => follow(&script, &events).await,
    }
}

async fn follow(script: &Script, events: &mpsc::Sender<Event>) {
    loop {
        let mark = mark(script.file.as_deref());
        let event = match look(script).await {
            Ok(hosts) => Event::Hosts(hosts),
            Err(error) => Event::DiscoveryFailed(error),
        };
        if events.send(event).await.is_err() {
            return;
        }
        wait(script, mark).await;
    }
}

/// Waits for the next look: until the interval is over, or the file is another one.
async fn wait(script: &Script, before: Option<(SystemTime, u64)>) {
    let Some(file) = &script.file else { return time::sleep(script.interval).await };
    let until = time::Instant::now() + script.interval;
    while mark(Some(file)) == before && time::Instant::now() < until {
        time::sleep(GLANCE).await;
    }
}

/// Tells one state of a file from another; a folder that Kubernetes mounts changes by its links.
fn mark(file: Option<&Path>) -> Option<(SystemTime, u64)> {
    let found = fs_err::metadata(file?).ok()?;
    Some((found.modified().ok()?, std::os::unix::fs::MetadataExt::ino(&found)))
}

/// Runs the program once and reads what it prints.
async fn look(script: &Script) -> Result<Vec<HostSlots>, String> {
    let name = &script.command;
    let output = time::timeout(script.patience, run(script)).await;
    let output = output.map_err(|_| format!("`{name}` has not ended within {:?}", script.patience))?;
    let (ended, stdout, stderr) = output.map_err(|error| format!("`{name}` cannot be run: {error}"))?;
    match ended {
        Ended::Code(0) => read(name, &stdout, script.slots_default),
        Ended::Code(126) => Err(format!("`{name}` cannot be executed; `chmod +x` may help")),
        Ended::Code(127) => Err(format!("`{name}` was not found")),
        Ended::Code(code) => Err(format!("`{name}` ended with code {code}{}", said(&stderr))),
        Ended::Signal(_) => Err(format!("`{name}` was ended by a signal")),
        Ended::Lost(why) => Err(format!("`{name}` was lost: {why}")),
    }
}

/// Whoever takes too long or prints too much is killed, with all that it started: nobody waits for the rest.
async fn run(script: &Script) -> io::Result<(Ended, Vec<u8>, Vec<u8>)> {
    let program = Program {
        words: ["/bin/sh", "-c", &script.command].map(str::to_owned).into(),
        environment: script.environment.clone(),
        directory: script.directory.clone(),
    };
    let started = Local::default().spawn(&program, Path::new(NO_INPUT), Output::Piped)?;
    let (stdout, stderr) = tokio::try_join!(read_all(started.stdout), read_all(started.stderr))?;
    let ended = started.ended.await.map_err(io::Error::other)?;
    drop(started.orders);
    Ok((ended, stdout, stderr))
}

async fn read_all(from: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(OUTPUT_MAX).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes).await?;
    if bytes.len() > OUTPUT_MAX { Err(io::Error::other("it prints more than a megabyte")) } else { Ok(bytes) }
}

fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!(": {}", &text[..text.floor_char_boundary(ERROR_MAX)]) }
}

/// Reads hosts line by line; a host that is printed twice counts once.
fn read(name: &str, stdout: &[u8], slots_default: Option<usize>) -> Result<Vec<HostSlots>, String> {
    let text = std::str::from_utf8(stdout).map_err(|_| format!("`{name}` prints what is no text"))?;
    let mut found: Vec<HostSlots> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let host = hosts::parse_host(line, slots_default.unwrap_or(0), hosts::Place::Arguments);
        let host = host.map_err(|error| match error {
            hosts::HostsError::NoSlots { name: host, .. } if !line.contains(':') => {
                format!("`{name}` gives no number of slots for host `{host}`; --slots-per-host would")
            }
            _ => format!("`{name}` prints `{}`, which is not `host` or `host:slots`", shortened(line)),
        })?;
        match found.iter_mut().find(|it| it.host == host.name) {
            Some(before) => before.slots = host.slots,
            None => found.push(HostSlots { host: host.name, slots: host.slots }),
        }
    }
    Ok(found)
}

fn shortened(line: &str) -> &str {
    &line[..line.floor_char_boundary(80)]
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use tokio::time::{self, Instant};

    use super::{Script, mark, read, wait};

    fn shown(text: &str, slots_default: Option<usize>) -> String {
        match read("find.sh", text.as_bytes(), slots_default) {
            Ok(hosts) => hosts.iter().map(|it| format!("{}={}", it.host, it.slots)).collect::<Vec<_>>().join(" "),
            Err(error) => error,
        }
    }

    /// With a clock that goes on by itself when everybody waits.
    #[tokio::test(start_paused = true)]
    async fn a_change_of_the_file_is_seen_long_before_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let (file, draft) = (folder.path().join("hosts"), folder.path().join("draft"));
        fs_err::write(&file, "a:1\n").unwrap();
        let script = Script {
            command: String::new(),
            environment: BTreeMap::new(),
            directory: folder.path().into(),
            slots_default: None,
            file: Some(file.clone()),
            interval: Duration::from_secs(30),
            patience: Duration::from_secs(30),
        };
        let begun = Instant::now();
        wait(&script, mark(Some(&file))).await;
        assert!(begun.elapsed() >= script.interval, "nothing has changed");
        let begun = Instant::now();
        let change = async {
            time::sleep(Duration::from_secs(1)).await;
            fs_err::write(&draft, "a:1\nb:1\n").unwrap();
            fs_err::rename(&draft, &file).unwrap();
        };
        tokio::join!(wait(&script, mark(Some(&file))), change);
        assert!(begun.elapsed() < Duration::from_millis(1200), "it took {:?}", begun.elapsed());
    }

    #[test]
    fn what_a_program_prints() {
        assert_eq!(shown("a:2\n\n b:1 \r\n", None), "a=2 b=1");
        assert_eq!(shown("a\nb:3\n", Some(2)), "a=2 b=3");
        assert_eq!(shown("a:2\na:2\n", None), "a=2");
        assert_eq!(shown("", None), "");
        assert_eq!(shown("a\n", None), "`find.sh` gives no number of slots for host `a`; --slots-per-host would");
        assert_eq!(shown("a:0\n", Some(1)), "`find.sh` prints `a:0`, which is not `host` or `host:slots`");
        assert_eq!(shown("<html> no\n", Some(1)), "`find.sh` prints `<html> no`, which is not `host` or `host:slots`");
        assert!(read("find.sh", b"\xff\xfe", None).unwrap_err().contains("no text"));
    }
}
