//! A job under measurement: the launcher as a process, its hosts in a file, and what its workers say.

use std::{
    env,
    io::{BufRead as _, BufReader},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;

use super::Options;

const PATIENCE: Duration = Duration::from_secs(60);
const WORKER: &str = include_str!("worker.py");

pub struct Job {
    child: Child,
    folder: tempfile::TempDir,
    lines: mpsc::Receiver<String>,
    /// Process and seconds of imports of every worker so far.
    workers: Vec<(String, f64)>,
}

/// Seconds since 1970, as Python's `time.time()` says them.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Job {
    pub fn start(options: &Options, hosts: &str, words: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("hosts");
        fs_err::write(&file, hosts)?;
        fs_err::write(folder.path().join("worker.py"), WORKER)?;
        build_package(folder.path(), &options.library)?;
        let mut child = Command::new(&options.launcher)
            .args(words.split(' '))
            .args(["--host-discovery-script", &format!("cat {}", file.display())])
            .arg(&options.python)
            .arg(folder.path().join("worker.py"))
            .env("RONDE_HOSTS_FILE", &file)
            .env("PYTHONPATH", folder.path())
            .env("OMP_NUM_THREADS", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the launcher")?;
        let stdout = child.stdout.take().context("the launcher has no output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, folder, lines, workers: Vec::new() })
    }

    /// Waits for a step of a ring of so many ranks that ended after a time; returns when it did.
    pub fn wait_for_step(&mut self, size: usize, after: f64) -> anyhow::Result<f64> {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).context("the training stands still")?;
            let words: Vec<&str> = line.split_once("<stdout>:").map_or("", |(_, it)| it).split(' ').collect();
            match words[..] {
                ["worker", pid, "imported", "in", seconds] => {
                    self.workers.push((pid.to_owned(), seconds.parse()?));
                }
                ["step", _, "of", of, "at", at] if of == size.to_string() && at.parse::<f64>()? > after => {
                    return Ok(at.parse()?);
                }
                _ => {}
            }
        }
    }

    /// Kills the worker that came last; returns when.
    pub fn kill_youngest(&mut self) -> anyhow::Result<f64> {
        let (pid, _) = self.workers.last().context("there is no worker")?;
        let at = now();
        Command::new("kill").args(["-9", pid]).status()?;
        Ok(at)
    }

    pub fn last_imports(&self) -> anyhow::Result<f64> {
        Ok(self.workers.last().context("there is no worker")?.1)
    }

    /// Changes the hosts; returns when.
    pub fn set_hosts(&self, hosts: &str) -> anyhow::Result<f64> {
        let path = |name: &str| self.folder.path().join(name);
        fs_err::write(path("draft"), hosts)?;
        let at = now();
        fs_err::rename(path("draft"), path("hosts"))?;
        Ok(at)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // Whatever it has started goes with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes the `ronde` package of the checkout importable without installing it.
pub fn build_package(folder: &Path, library: &Path) -> anyhow::Result<()> {
    let package = folder.join("ronde");
    fs_err::create_dir_all(&package)?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/ronde/ronde");
    for file in fs_err::read_dir(&source)? {
        let file = file?;
        symlink(file.path(), package.join(file.file_name()))?;
    }
    symlink(env::current_dir()?.join(library), package.join("_ronde.so"))?;
    Ok(())
}
