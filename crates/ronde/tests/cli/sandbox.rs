//! A home of its own for each test, and words for what a command did.

use std::{
    fmt::Write as _,
    fs::Permissions,
    io::{Read, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio},
    time::Duration,
};

use fs_err as fs;
use regex::Regex;
use ronde_sim::wait_until;
use serde_json::Value;
use tempfile::TempDir;

/// Bounds every wait of these tests; a start takes a fraction of a second.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A directory that holds everything one test touches.
pub struct Sandbox {
    dir: TempDir,
}

/// A command that runs until the test ends.
pub struct Running {
    child: Child,
}

impl Sandbox {
    pub fn new() -> Self {
        Self::inside(&std::env::temp_dir())
    }

    pub fn inside(folder: &Path) -> Self {
        Self { dir: tempfile::tempdir_in(folder).unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        // The canonical name is what ronde prints.
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        // Whatever the umask of this machine is.
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|_| "(none)".to_owned())
    }

    /// Returns `ronde` under `nohup`, which makes it deaf to SIGHUP.
    pub fn start_under_nohup(&self, line: &str) -> Running {
        let words = format!("{} {line}", env!("CARGO_BIN_EXE_ronde"));
        Running { child: self.command_of("nohup", &words).spawn().unwrap() }
    }

    pub fn command(&self, line: &str) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_ronde"), line)
    }

    /// Returns a program with the words of `line`, in this home and with nothing of the user's environment.
    #[expect(clippy::disallowed_methods, reason = "the tests find their programs where the user has them")]
    pub fn command_of(&self, program: &str, line: &str) -> Command {
        let mut command = Command::new(program);
        command.args(line.split_whitespace()).current_dir(self.path("")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // The bare API: what pods do is for the tests of pods.
        command.env("HOME", self.path("")).env("RONDE_DATA_DIR", self.path("data")).env("RONDE_NODES", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs a command and writes down what a user would see, without what differs between two runs.
    pub fn transcript(&self, line: &str) -> String {
        self.describe(line, &self.run(line))
    }

    pub fn describe(&self, line: &str, output: &Output) -> String {
        let mut text = format!("$ ronde {line}\nexit code: {}\n", output.status.code().unwrap_or(-1));
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                let _ = write!(text, "----- {name}\n{}", String::from_utf8_lossy(bytes));
            }
        }
        self.redact(&text)
    }

    /// Replaces what differs from run to run, and nothing else.
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.replace(self.path("").to_str().unwrap().trim_end_matches('/'), "[TMP]");
        for (pattern, name) in [
            (r"127\.0\.0\.1:\d{5}", "127.0.0.1:[PORT]"),
            (r"process +\d+", "process [PID]"),
            // How long an end takes is the machine's business.
            (r"(?m)^waiting for process \[PID\] to finish.*\n", ""),
            (r#""pid": \d+"#, r#""pid": [PID]"#),
            (r"after \d+\.\d\d s", "after [SECONDS] s"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "[TIME]"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[TIME]"),
            (r"\(\d+ files, \d+\.\d MiB\)", "([SIZE])"),
            (r"\(\d+\.\d MiB\)", "([SIZE])"),
            (r"\((\d+m)?\d+s\)", "([AGE])"),
            (r"(?m)^((\d+m)?\d+s|\d+m) +", "[AGE] "),
            (r"(?m) +((\d+m)?\d+s|\d+m)( +|$)", "   [AGE] "),
            (r"AGE {3,}", "AGE   "),
        ] {
            text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
        }
        text
    }

    /// Starts an instance in the background on a free port; the test stops it, or the end of the sandbox does.
    pub fn up(&self) {
        let output = self.run("up --detach --listen 127.0.0.1:0");
        assert!(output.status.success(), "{}", self.describe("up", &output));
    }

    /// Starts an instance that runs jobs: two nodes of two CPUs each, with plain processes for pods, as anywhere.
    pub fn up_with_nodes(&self) {
        let output = self.run("up --detach --listen 127.0.0.1:0 --nodes 2 --cpus 2 --memory 1Gi --isolation none");
        assert!(output.status.success(), "{}", self.describe("up", &output));
    }

    /// Runs a command until it writes something that is wanted.
    pub fn until(&self, line: &str, wanted: &str) {
        let has = || String::from_utf8_lossy(&self.run(line).stdout).contains(wanted).then_some(());
        wait_until(&format!("`ronde {line}` shows `{wanted}`"), LIMIT, has);
    }

    /// Starts an instance in the foreground and waits until it is ready.
    pub fn up_in_foreground(&self, line: &str) -> Running {
        let running = Running { child: self.command(line).spawn().unwrap() };
        self.until_ready();
        running
    }

    pub fn start(&self, line: &str) -> Running {
        Running { child: self.command(line).spawn().unwrap() }
    }

    /// Starts a command that says what it has to say, and logs nothing.
    pub fn start_without_log(&self, line: &str) -> Running {
        Running { child: self.command(line).env("RONDE_LOG", "off").spawn().unwrap() }
    }

    pub fn status(&self) -> Value {
        serde_json::from_slice(&self.run("status -o json").stdout).unwrap()
    }

    /// Waits until the instance answers.
    pub fn until_ready(&self) {
        wait_until("`ronde up` is ready", LIMIT, || (self.status()["ready"] == true).then_some(()));
    }

    pub fn pid(&self) -> u32 {
        self.status()["pid"].as_u64().unwrap().try_into().unwrap()
    }

    /// Kills the instance as a power cut would, and waits until the kernel has noticed.
    pub fn kill_9(&self) {
        kill(self.pid(), "KILL");
        wait_until("the killed process is gone", LIMIT, || (self.status()["running"] == false).then_some(()));
    }

    /// Feeds a text to a command.
    pub fn run_with_input(&self, line: &str, input: &str) -> Output {
        let mut child = self.command(line).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let data = self.path("");
        for entry in fs::read_dir(&data).into_iter().flatten().flatten() {
            if entry.path().join("lock").exists() {
                let _ = self.command("down --quiet").env("RONDE_DATA_DIR", entry.path()).output();
            }
        }
    }
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn wait(mut self) -> Output {
        let status = wait_until("the command ends", LIMIT, || self.child.try_wait().unwrap());
        Output { status, stdout: read_all(self.child.stdout.take()), stderr: read_all(self.child.stderr.take()) }
    }

    pub fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    pub fn stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// Sends a signal.
pub fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status().unwrap();
    assert!(status.success());
}

/// Returns the permission bits of a file.
pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
