//! An elastic job under test: the launcher as a process, its hosts in a file, and all that it says.

use std::{
    env, fmt,
    io::{BufRead as _, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use ronde_sim::wait_until;
use rustix::process::{Pid, Signal};

const PATIENCE: Duration = Duration::from_secs(120);

/// What the job is to be like.
pub struct Plan {
    hosts: String,
    discover: Option<String>,
    variables: Vec<(&'static str, String)>,
}

/// A job that runs; whatever is left of it is killed when dropped.
pub struct Job {
    child: Child,
    folder: tempfile::TempDir,
    lines: Arc<Mutex<Vec<String>>>,
    readers: Vec<thread::JoinHandle<()>>,
    code: Option<i32>,
}

impl Job {
    pub fn hosts(hosts: &str) -> Plan {
        Plan { hosts: hosts.to_owned(), discover: None, variables: vec![("TEST_STEPS", "10".to_owned())] }
    }
}

impl Plan {
    fn with(mut self, name: &'static str, value: String) -> Self {
        self.variables.push((name, value));
        self
    }

    pub fn steps(self, steps: u64) -> Self {
        self.with("TEST_STEPS", steps.to_string())
    }

    pub fn pause_ms(self, pause: u64) -> Self {
        self.with("TEST_PAUSE_MS", pause.to_string())
    }

    pub fn fail_on(self, host: &str) -> Self {
        self.with("TEST_FAIL_ON", host.to_owned())
    }

    pub fn discover(mut self, script: &str) -> Self {
        self.discover = Some(script.to_owned());
        self
    }

    pub fn start(self, words: &str) -> Job {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        fs_err::write(&file, &self.hosts).unwrap();
        // There is no such program: it is known as the one that prints the list, which the launcher reads itself.
        let discover = self.discover.unwrap_or_else(|| folder.path().join("discover_hosts.sh").display().to_string());
        let mut child = Command::new(env!("CARGO_BIN_EXE_horovodrun"))
            .args(words.split(' '))
            .args(["--host-discovery-script", &discover])
            .arg(env::current_exe().unwrap())
            .args(["be_a_worker", "--exact", "--nocapture"])
            .envs(self.variables)
            .env("TEST_WORKER", "1")
            .env("TEST_FOLDER", folder.path())
            .current_dir(folder.path())
            .env("RONDE_HOSTS_FILE", &file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::default();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        let readers = streams.map(|stream| follow(stream, &lines)).into();
        Job { child, folder, lines, readers, code: None }
    }
}

fn follow(stream: Box<dyn Read + Send>, lines: &Arc<Mutex<Vec<String>>>) -> thread::JoinHandle<()> {
    let lines = Arc::clone(lines);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
        }
    })
}

impl Job {
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub fn has_line(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }

    pub fn wait_for(&mut self, text: &str) {
        self.wait_after(0, text);
    }

    /// Waits for a line with this text after so many lines.
    pub fn wait_after(&mut self, seen: usize, text: &str) {
        let has_come = |job: &Self| job.lines().iter().skip(seen).any(|line| line.contains(text));
        let until = || (has_come(self) || !self.is_running_now()).then_some(());
        wait_until(&format!("`{text}` is said"), PATIENCE, until);
        assert!(has_come(self), "the job ended without `{text}`:\n{self}");
    }

    fn is_running_now(&self) -> bool {
        is_alive(self.child.id())
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn set_hosts(&self, hosts: &str) {
        fs_err::write(self.path("draft"), hosts).unwrap();
        fs_err::rename(self.path("draft"), self.path("hosts")).unwrap();
    }

    /// A file of the job's own folder, which its programs know as `$TEST_FOLDER`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The processes that have been workers, in the order in which they said so.
    pub fn pids(&self) -> Vec<u32> {
        self.lines().iter().filter_map(|line| line.split_once("pid ")?.1.parse().ok()).collect()
    }

    /// Kills the worker whose lines have this number.
    pub fn kill(&self, number: usize) {
        let prefix = format!("[{number}]<stdout>:");
        let pid = wait_until("there is such a worker", PATIENCE, || {
            let lines = self.lines();
            let mut own = lines.iter().rev().filter_map(|line| line.strip_prefix(&prefix));
            own.find_map(|line| line.split_once("pid ")?.1.parse().ok())
        });
        kill(pid);
    }

    pub fn kill_launcher(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn interrupt(&self) {
        send(self.child.id(), Signal::INT);
    }

    pub fn exit_code(&mut self) -> i32 {
        if self.code.is_none() {
            let status = wait_until("the job ends", PATIENCE, || self.child.try_wait().unwrap());
            self.readers.drain(..).for_each(|reader| reader.join().unwrap());
            self.code = status.code();
        }
        self.code.expect("the launcher was killed by a signal")
    }

    /// Waits for the end, which must be a good one, and returns what came of it. There is no pause between steps any more.
    pub fn result(&mut self) -> String {
        fs_err::write(self.path("hurry"), "").unwrap();
        assert_eq!(self.exit_code(), 0, "{self}");
        let lines = self.lines();
        let result = lines.iter().find_map(|line| Some(line.split_once("result: ")?.1.to_owned()));
        result.unwrap_or_else(|| panic!("there is no result:\n{self}"))
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        let shown = lines.iter().filter(|line| !line.contains(":step ")).map(|line| format!("{line}\n"));
        f.write_str(&shown.collect::<String>())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn kill(pid: u32) {
    send(pid, Signal::KILL);
}

fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // It may have ended by itself.
    let _ = pid.map(|pid| rustix::process::kill_process(pid, signal));
}

/// Whether a process runs; one that has ended and is not yet reaped does not.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}
