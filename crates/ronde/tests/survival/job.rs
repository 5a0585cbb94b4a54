//! An elastic training on the hosts, and what is known of its workers from what they say.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use fs_err as fs;
use ronde_sim::wait_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    hosts::{HOSTS, Hosts},
    network::address,
    training::Training,
};

/// A job stands still for a second after a loss, and Python takes its time on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
const SLOTS: usize = 2;
/// In a ring that is whole.
pub const RANKS: usize = 6;
const FLAGS: [&str; 9] = ["-np", "2", "--min-np", "1", "--max-np", "6", "--blacklist-cooldown-range", "1", "1"];

pub struct Job {
    child: Child,
    heard: Arc<Mutex<Heard>>,
    readers: Vec<thread::JoinHandle<()>>,
    /// From this step on the training may end at any moment.
    nearly_done: u64,
}

/// What is known of a job from its output.
#[derive(Debug, Default)]
struct Heard {
    /// By the number before their lines.
    workers: BTreeMap<String, Worker>,
    /// The last step that was done.
    step: u64,
    /// All that was said but the steps.
    lines: Vec<String>,
}

/// A worker that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    pub pid: u32,
    /// Steps that it has done since the last ring was formed, or a little before.
    steps: usize,
}

impl Worker {
    /// It is in the ring of now, and the state is with it. One that was just lost cannot do so many steps.
    pub const fn has_state(&self) -> bool {
        self.steps >= 5
    }
}

impl Job {
    pub fn start(hosts: &Hosts, training: &Training) -> Self {
        set_hosts(hosts, &HOSTS.collect::<Vec<_>>());
        let list = hosts.path("hosts").display().to_string();
        // The program that prints the list, for other launchers: ours reads it.
        let script = hosts.path("discover_hosts.sh").display().to_string();
        let flags = [FLAGS.as_slice(), &["--host-discovery-script", &script]].concat();
        let mut command = hosts.launcher(&flags);
        command.env("RONDE_HOSTS_FILE", list).env("OMP_NUM_THREADS", "1");
        training.complete(&mut command);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let heard = Arc::default();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        let readers = streams.map(|stream| listen(stream, Arc::clone(&heard))).into();
        Self { child, heard, readers, nearly_done: training.nearly_done() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The workers that run, as far as they have said so.
    pub fn workers(&self) -> Vec<Worker> {
        let workers: Vec<Worker> = self.heard.lock().unwrap().workers.values().copied().collect();
        workers.into_iter().filter(|worker| is_alive(worker.pid)).collect()
    }

    /// Whether the training may end at any moment, or has.
    pub fn is_nearly_done(&self) -> bool {
        self.heard.lock().unwrap().step >= self.nearly_done
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end; returns the exit code and all that was said but the steps.
    pub fn end(mut self) -> (Option<i32>, Vec<String>) {
        let status = wait_until("the training ends", PATIENCE * 5, || self.child.try_wait().unwrap());
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        (status.code(), std::mem::take(&mut self.heard.lock().unwrap().lines))
    }

    /// The last lines, for who wonders what went wrong.
    pub fn shown(&self) -> String {
        let heard = self.heard.lock().unwrap();
        heard.lines[heard.lines.len().saturating_sub(80)..].join("\n")
    }
}

impl Heard {
    fn hear(&mut self, line: String) {
        let said = line.split_once("<stdout>:");
        if let Some((number, text)) = said
            && let Some(step) = text.strip_prefix("Step #")
        {
            self.step = step.split(' ').next().unwrap().parse().unwrap();
            self.workers.get_mut(number).unwrap().steps += 1;
            return;
        }
        if let Some((number, text)) = said
            && let Some(pid) = text.strip_prefix("pid ")
        {
            self.workers.insert(number.to_owned(), Worker { pid: pid.parse().unwrap(), steps: 0 });
        } else if line.starts_with("ronde: ring ") {
            self.workers.values_mut().for_each(|worker| worker.steps = 0);
        }
        self.lines.push(line);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(stream: Box<dyn Read + Send>, heard: Arc<Mutex<Heard>>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| heard.lock().unwrap().hear(line));
    })
}

/// Says which hosts the job may use.
pub fn set_hosts(hosts: &Hosts, list: &[usize]) {
    let text: String = list.iter().map(|host| format!("{}:{SLOTS}\n", address(*host))).collect();
    fs::write(hosts.path("hosts.new"), text).unwrap();
    fs::rename(hosts.path("hosts.new"), hosts.path("hosts")).unwrap();
}

pub fn kill(pid: u32) {
    // It may have ended by itself.
    let _ = Pid::from_raw(pid.try_into().unwrap()).map(|pid| kill_process(pid, Signal::KILL));
}

/// Whether a process runs; one that waits to be reaped does not.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
