//! A job under measurement: the launcher as a process, its hosts in a file, and what its workers say.

use std::{
    fs::Permissions,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail};

use super::peer::Peer;

const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(5);
/// Lines of what a launcher that failed has written.
const LAST_WORDS: usize = 10;
/// Horovod loses a change of hosts within the second of another.
const REST: Duration = Duration::from_millis(2500);

pub struct Job {
    child: Child,
    folder: tempfile::TempDir,
    lines: mpsc::Receiver<String>,
    /// Process and seconds of imports of every worker so far.
    workers: Vec<(String, f64)>,
    is_watching: bool,
}

/// Seconds since 1970, as Python's `time.time()` says them.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Lets a training go on for a while.
pub fn rest() {
    thread::sleep(REST);
}

impl Job {
    /// Starts a training on hosts, each as `name:slots`.
    pub fn start(peer: &Peer, hosts: &[&str], ranks: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        fs_err::write(path("hosts"), hosts.join("\n"))?;
        fs_err::write(path("worker.py"), peer.script)?;
        // Other launchers run it; ours reads the list beside it, if told where that is.
        fs_err::write(path("discover_hosts.sh"), discovery(folder.path()))?;
        fs_err::set_permissions(path("discover_hosts.sh"), Permissions::from_mode(0o755))?;
        let script = path("discover_hosts.sh").display().to_string();
        let mut command = peer.launch(&["-np", ranks, "--min-np", "1", "--host-discovery-script", &script]);
        if peer.is_watching {
            command.env("RONDE_HOSTS_FILE", path("hosts"));
        }
        let errors = fs_err::File::create(path("errors"))?.into_parts().0;
        command.arg(path("worker.py")).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().context("cannot start the launcher")?;
        let stdout = child.stdout.take().context("the launcher has no output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, folder, lines, workers: Vec::new(), is_watching: peer.is_watching })
    }

    /// Waits for a step of a ring of so many ranks that ended after a time; returns when it did.
    pub fn wait_for_step(&mut self, size: usize, after: f64) -> anyhow::Result<f64> {
        loop {
            let line = self.next_line()?;
            match said(&line)[..] {
                ["step", _, "of", of, "at", at] if of == size.to_string() && at.parse::<f64>()? > after => {
                    return Ok(at.parse()?);
                }
                _ => {}
            }
        }
    }

    /// Returns what the imports of the worker that came as the `number`th took.
    pub fn wait_for_imports(&mut self, number: usize) -> anyhow::Result<f64> {
        while self.workers.len() < number {
            self.next_line()?;
        }
        Ok(self.workers[number - 1].1)
    }

    /// Kills the worker that came last; returns when.
    pub fn kill_youngest(&mut self) -> anyhow::Result<f64> {
        let (pid, _) = self.workers.last().context("there is no worker")?;
        let at = now();
        kill(pid)?;
        Ok(at)
    }

    /// Changes the hosts; returns when the launcher could know.
    pub fn set_hosts(&self, hosts: &[&str]) -> anyhow::Result<f64> {
        fs_err::write(self.path("draft"), hosts.join("\n"))?;
        let at = now();
        fs_err::rename(self.path("draft"), self.path("hosts"))?;
        if self.is_watching { Ok(at) } else { self.wait_until_told(hosts, at) }
    }

    /// Waits until the launcher has asked for the hosts and heard of these; returns when it did.
    fn wait_until_told(&self, hosts: &[&str], after: f64) -> anyhow::Result<f64> {
        let wanted = hosts.join(" ");
        while now() < after + PATIENCE.as_secs_f64() {
            let told = fs_err::read_to_string(self.path("told"))?;
            for (at, heard) in told.lines().filter_map(|line| line.split_once(' ')) {
                let at: f64 = at.parse()?;
                if at > after && heard == wanted {
                    return Ok(at);
                }
            }
            thread::sleep(GLANCE);
        }
        bail!("the launcher does not ask for hosts")
    }

    fn next_line(&mut self) -> anyhow::Result<String> {
        let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
            bail!("the training stands still; the last words were:\n{}", self.last_words());
        };
        if let ["worker", pid, "imported", "in", seconds] = said(&line)[..] {
            self.workers.push((pid.to_owned(), seconds.parse()?));
        }
        Ok(line)
    }

    fn last_words(&self) -> String {
        let errors = fs_err::read(self.path("errors")).unwrap_or_default();
        let errors = String::from_utf8_lossy(&errors);
        let lines: Vec<&str> = errors.lines().collect();
        lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // What ours has started goes with it; workers of another launcher may take their time.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for (pid, _) in &self.workers {
            let folder = self.folder.path().to_string_lossy();
            let command = fs_err::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&command).contains(&*folder) {
                let _ = kill(pid);
            }
        }
    }
}

/// The program that a launcher asks for hosts; it notes when it was asked, and what it says.
fn discovery(folder: &Path) -> String {
    let folder = folder.display();
    let note = format!(r#"echo "$(date +%s.%N)" $hosts >> {folder}/told"#);
    format!("#!/bin/sh\nhosts=$(cat {folder}/hosts)\n{note}\necho \"$hosts\"\n")
}

/// The words of a worker, without who it is.
fn said(line: &str) -> Vec<&str> {
    line.split_once("<stdout>:").map_or("", |(_, it)| it).split(' ').collect()
}

fn kill(pid: &str) -> anyhow::Result<()> {
    // Who has ended in the meantime is no news.
    Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status()?;
    Ok(())
}
