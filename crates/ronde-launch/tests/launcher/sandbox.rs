//! A place for one test: a folder, a mark that all processes of the test carry, and the launcher's words.

use std::{
    fs::Permissions,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use ronde_sim::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// For what takes milliseconds on an idle machine.
pub const SOON: Duration = Duration::from_secs(60);
/// What a busy machine may take beyond what is promised.
pub const BUSY: Duration = Duration::from_secs(23);

pub struct Sandbox {
    pub folder: TempDir,
    /// Inherited by everything that the test starts, and found again in `/proc`.
    mark: String,
}

/// What a launcher has said when it ended.
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Sandbox {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mark = format!("RONDE_TEST_MARK={}", folder.path().display());
        Self { folder, mark }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The launcher with arguments, ready to be started.
    pub fn launcher(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_horovodrun"));
        let (name, value) = self.mark.split_once('=').unwrap();
        // Nothing is to be said about threads.
        command.env("OMP_NUM_THREADS", "1").env_remove("MKL_NUM_THREADS");
        command.args(args).env(name, value).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs ranks of a line of shell to their end.
    pub fn run(&self, flags: &[&str], line: &str) -> Said {
        said(self.launcher(&[flags, &["sh", "-c", line]].concat()).output().unwrap())
    }

    /// Writes a program and returns its path.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs_err::write(&path, text).unwrap();
        fs_err::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The processes of this test that live.
    pub fn processes(&self) -> Vec<i32> {
        let pids = fs_err::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
            let environ = fs_err::read(entry.path().join("environ")).ok()?;
            let is_ours = environ.split(|byte| *byte == 0).any(|variable| variable == self.mark.as_bytes());
            is_ours.then_some(pid)
        });
        pids.collect()
    }

    pub fn wait_for_nothing_left(&self, limit: Duration) {
        wait_until("everything has ended", limit, || self.processes().is_empty().then_some(()));
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

pub struct Running {
    pub child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    pub seen: String,
}

impl Running {
    /// Starts ranks of a line of shell that says `ready` when it is, and waits for all of them.
    pub fn start(mut command: Command, ranks: usize) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut seen = String::new();
        while seen.matches("ready").count() < ranks {
            if stdout.read_line(&mut seen).unwrap() == 0 {
                let mut stderr = String::new();
                child.stderr.unwrap().read_to_string(&mut stderr).unwrap();
                panic!("it ended early: {seen}{stderr}");
            }
        }
        Self { child, stdout, seen }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn end(mut self) -> Said {
        self.stdout.read_to_string(&mut self.seen).unwrap();
        let output = self.child.wait_with_output().unwrap();
        Said { stdout: self.seen, ..said(output) }
    }
}

fn said(output: Output) -> Said {
    Said {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Said {
    /// The lines of stdout in order, since ranks speak when they like.
    pub fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.stdout.lines().collect();
        lines.sort_unstable();
        lines
    }
}

/// `$PATH` with a folder in front.
pub fn path_with(folder: &Path) -> String {
    format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display())
}
