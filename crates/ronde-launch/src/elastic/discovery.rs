//! Finds out which hosts the job may use: by a program that prints them, or by the host list of a training job.
//!
//! A program is run every second. It is given a time and a length of output, and a keeper, as ranks are: it ends with
//! all that it started, also when the launcher is killed. The list of a training job is read here, so that a change is
//! known within [`POLL`]; the script that prints it is for other launchers. What is wrong with either is told in words;
//! the driver decides what follows.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::mpsc,
    time,
};

use super::model::{Event, HostSlots};
use crate::{
    hosts,
    keeper::NO_INPUT,
    start::{
        Ended, Program,
        local::{Local, Output},
    },
};

/// Horovod's interval between two looks.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks at the list of a training job; reading a small file so often costs nothing that shows.
const POLL: Duration = Duration::from_millis(50);
/// The program that prints the list of a training job, beside that list.
const LIST_SCRIPT: &str = "discover_hosts.sh";
/// More hosts than fit in here are not in one place.
const OUTPUT_MAX: usize = 1024 * 1024;
/// Of what a program says when it fails.
const ERROR_MAX: usize = 400;

/// Where the hosts come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// They stay as they are.
    Fixed(Vec<HostSlots>),
    List(HostList),
    Script(Script),
}

/// A file with `host` or `host:slots` in each line, which is replaced as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostList {
    pub path: PathBuf,
    /// For hosts without a number.
    pub slots_default: Option<usize>,
}

impl HostList {
    /// Tells whether a program is the one that prints this list.
    pub fn is_printed_by(&self, command: &str) -> bool {
        self.path.with_file_name(LIST_SCRIPT) == Path::new(command) && self.path.is_file()
    }
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
        Source::List(list) => follow_list(&list, &events).await,
        Source::Script(script) => follow_script(&script, &events).await,
    }
}

/// Tells of every change of the list.
async fn follow_list(list: &HostList, events: &mpsc::Sender<Event>) {
    let name = list.path.display().to_string();
    let mut last = None;
    loop {
        let text = fs_err::read(&list.path).map_err(|error| error.to_string());
        if last.as_ref() != Some(&text) {
            let hosts = text.as_ref().map_err(Clone::clone).and_then(|text| read(&name, text, list.slots_default));
            if events.send(event(hosts)).await.is_err() {
                return;
            }
            last = Some(text);
        }
        time::sleep(POLL).await;
    }
}

async fn follow_script(script: &Script, events: &mpsc::Sender<Event>) {
    while events.send(event(look(script).await)).await.is_ok() {
        time::sleep(script.interval).await;
    }
}

fn event(hosts: Result<Vec<HostSlots>, String>) -> Event {
    hosts.map_or_else(Event::DiscoveryFailed, Event::Hosts)
}

/// Runs the program once and reads what it prints.
async fn look(script: &Script) -> Result<Vec<HostSlots>, String> {
    let name = &script.command;
    let output = time::timeout(script.patience, run(script)).await;
    let output = output.map_err(|_| format!("`{name}` did not finish within {:?}", script.patience))?;
    let (ended, stdout, stderr) = output.map_err(|error| format!("`{name}` failed: {error}"))?;
    match ended {
        Ended::Code(0) => read(name, &stdout, script.slots_default),
        Ended::Code(126) => Err(format!("`{name}` is not executable; make it so with `chmod +x`")),
        Ended::Code(127) => Err(format!("`{name}` was not found")),
        Ended::Code(code) => Err(format!("`{name}` exited with code {code}{}", said(&stderr))),
        Ended::Signal(_) => Err(format!("`{name}` was killed by a signal")),
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
    if bytes.len() > OUTPUT_MAX { Err(io::Error::other("it printed more than 1 MB")) } else { Ok(bytes) }
}

fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!(": {}", &text[..text.floor_char_boundary(ERROR_MAX)]) }
}

/// Reads hosts line by line; a host that is printed twice counts once.
fn read(name: &str, text: &[u8], slots_default: Option<usize>) -> Result<Vec<HostSlots>, String> {
    let text = std::str::from_utf8(text).map_err(|_| format!("`{name}`: not a text"))?;
    let mut found: Vec<HostSlots> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let host = hosts::parse_host(line, slots_default.unwrap_or(0), hosts::Origin::Arguments);
        let host = host.map_err(|error| match error {
            hosts::HostsError::NoSlots { name: host, .. } if !line.contains(':') => {
                format!("`{name}`: no slots given for host `{host}`; set them for all hosts with --slots-per-host")
            }
            _ => format!("`{name}`: expected `host` or `host:slots`, got `{}`", shortened(line)),
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
    use std::time::Duration;

    use tokio::{sync::mpsc, time::Instant};

    use super::{Event, HostList, Source, read, watch};

    fn shown(text: &str, slots_default: Option<usize>) -> String {
        match read("find.sh", text.as_bytes(), slots_default) {
            Ok(hosts) => hosts.iter().map(|it| format!("{}={}", it.host, it.slots)).collect::<Vec<_>>().join(" "),
            Err(error) => error,
        }
    }

    fn shown_event(event: Option<Event>) -> String {
        match event {
            Some(Event::Hosts(hosts)) => hosts.iter().map(|it| it.host.as_str()).collect(),
            other => format!("{other:?}"),
        }
    }

    /// With a clock that goes on by itself when everybody waits.
    #[tokio::test(start_paused = true)]
    async fn a_change_of_the_list_is_known_at_once_and_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, draft) = (folder.path().join("hosts"), folder.path().join("draft"));
        fs_err::write(&path, "a:1\n").unwrap();
        let (sender, mut events) = mpsc::channel(1);
        let list = HostList { path: path.clone(), slots_default: None };
        let watching = tokio::spawn(watch(Source::List(list), sender));
        assert_eq!(shown_event(events.recv().await), "a");
        let silence = tokio::time::timeout(Duration::from_secs(30), events.recv()).await;
        assert!(silence.is_err(), "nothing has changed");
        fs_err::write(&draft, "a:1\nb:1\n").unwrap();
        let begun = Instant::now();
        fs_err::rename(&draft, &path).unwrap();
        assert_eq!(shown_event(events.recv().await), "ab");
        assert!(begun.elapsed() <= Duration::from_millis(100), "it took {:?}", begun.elapsed());
        fs_err::remove_file(&path).unwrap();
        assert!(shown_event(events.recv().await).contains("DiscoveryFailed"));
        fs_err::write(&path, "a:1\n").unwrap();
        assert_eq!(shown_event(events.recv().await), "a", "it is back");
        watching.abort();
    }

    #[test]
    fn the_script_of_a_list_is_known_by_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let list = HostList { path: folder.path().join("hostfile"), slots_default: None };
        let script = folder.path().join("discover_hosts.sh").display().to_string();
        assert!(!list.is_printed_by(&script), "there is no list");
        fs_err::write(&list.path, "a:1\n").unwrap();
        assert!(list.is_printed_by(&script));
        assert!(!list.is_printed_by(&format!("{script} --all")), "who gives arguments means something else");
        assert!(!list.is_printed_by("discover_hosts.sh"));
    }

    #[test]
    fn what_a_program_prints() {
        assert_eq!(shown("a:2\n\n b:1 \r\n", None), "a=2 b=1");
        assert_eq!(shown("a\nb:3\n", Some(2)), "a=2 b=3");
        assert_eq!(shown("a:2\na:2\n", None), "a=2");
        assert_eq!(shown("", None), "");
        assert_eq!(
            shown("a\n", None),
            "`find.sh`: no slots given for host `a`; set them for all hosts with --slots-per-host"
        );
        assert_eq!(shown("a:0\n", Some(1)), "`find.sh`: expected `host` or `host:slots`, got `a:0`");
        assert_eq!(shown("<html> no\n", Some(1)), "`find.sh`: expected `host` or `host:slots`, got `<html> no`");
        assert!(read("find.sh", b"\xff\xfe", None).unwrap_err().contains("not a text"));
    }
}
