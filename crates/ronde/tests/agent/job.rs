//! A job of real agents on this machine: each on an address of its own, as on hosts of their own.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use fs_err as fs;
use ronde_sim::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Bounds every wait of these tests.
pub const LIMIT: Duration = Duration::from_secs(120);
/// What is left of a job whose launcher was killed is gone after 2 s; the rest is for a busy machine.
pub const GONE_LIMIT: Duration = Duration::from_secs(2 + 23);

/// A job with a secret and a port for its agents.
pub struct Job {
    pub dir: TempDir,
    pub port: u16,
    /// Held, so that nobody else is given its port; agents listen on other addresses.
    _held: TcpListener,
}

/// An agent or a client that runs until the test ends.
pub struct Running(pub Child);

impl Job {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("secret"), "0123456789abcdef\n").unwrap();
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { dir, port: held.local_addr().unwrap().port(), _held: held }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a command that knows the job's secret and port, and nothing of the agents around the test.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("RONDE_SECRET_FILE", self.path("secret")).env("RONDE_AGENT_PORT", self.port.to_string());
        command.env_remove("RONDE_SECRET").stdin(Stdio::null());
        command
    }

    pub fn ronde(&self, words: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_ronde"));
        command.args(words);
        command
    }

    pub fn rsh(&self, host: &str, line: &str) -> Output {
        self.ronde(&["rsh", host, line]).output().unwrap()
    }

    /// Starts an agent and waits until it listens.
    pub fn agent(&self, ip: &str, words: &[&str]) -> Running {
        let listen = format!("{ip}:{}", self.port);
        start_agent(self.ronde(&["agent", "--listen", &listen]).args(words))
    }
}

/// Starts an agent and waits until it listens; what else it says goes to the test's stderr. One with a command of its own
/// says nothing.
pub fn start_agent(command: &mut Command) -> Running {
    if command.get_args().any(|word| word == "--") {
        return Running(command.spawn().unwrap());
    }
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().expect("an agent says something").unwrap();
    assert!(first.starts_with("listens on"), "{first}");
    thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("agent: {line}")));
    Running(child)
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Waits for the end and returns the exit code, as a shell tells it.
    pub fn code(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        let status = wait_until("a process ends", LIMIT, || self.0.try_wait().unwrap());
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    // One that has ended already is what was wanted.
    let _ = kill_process(pid, signal);
}

/// The agent proper, below its outer process.
pub fn inner(agent: &Running) -> u32 {
    let pid = agent.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

/// A number of seconds that no other process sleeps.
pub fn mark() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("4321.{}{:03}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The processes that sleep for that number.
pub fn sleepers(mark: &str) -> Vec<u32> {
    let wanted = format!("sleep\0{mark}\0");
    let all = Path::new("/proc").read_dir().unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == wanted.as_bytes())).collect()
}

pub fn wait_for_sleepers(mark: &str, count: usize) {
    wait_until("programs run", LIMIT, || (sleepers(mark).len() == count).then_some(()));
}

pub fn wait_until_gone(mark: &str) {
    wait_until("programs are gone", GONE_LIMIT, || sleepers(mark).is_empty().then_some(()));
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
