//! Elastic jobs: how long a training stands still when ranks die, come and go, and how long a start takes.
//!
//! Times are from the cause to the end of the next step, as the workers themselves say it: with NumPy, and, where
//! there is a Python that has Horovod, the same script for PyTorch under its launcher and under ours, in turns. The
//! driver's decisions alone are measured for a thousand workers, and the hand-over of a large state beside a copy.

mod driver;
mod job;
mod peer;
mod sync;

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use self::{job::Job, peer::Peer};

#[derive(Args)]
pub struct Options {
    /// The launcher to measure.
    #[arg(long)]
    launcher: PathBuf,
    /// A folder with our Python packages.
    #[arg(long)]
    package: PathBuf,
    /// A Python with NumPy and cloudpickle.
    #[arg(long, default_value = "python3")]
    python: OsString,
    /// A Python that has Horovod, to be measured beside ours; HOROVOD_PYTHONPATH says where else its modules are.
    #[arg(long)]
    horovod_python: Option<OsString>,
    /// Rounds of each measurement; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Two names of this machine, which every launcher takes for hosts of their own and reaches without ssh.
const HOSTS: [&str; 2] = ["localhost", "127.0.0.1"];
const EVENTS: [&str; 3] = ["a worker is killed", "a host comes", "a host goes"];
const RANKS: [usize; 3] = [2, 4, 8];

pub fn run(options: &Options) -> anyhow::Result<()> {
    let numpy = Peer::with_numpy(options);
    let alone = measure(options.rounds, &numpy, None)?;
    println!("with NumPy, the hosts in a file; until the next step, when");
    alone.print();
    match options.horovod_python.as_ref().and_then(|python| Peer::horovod(python.clone())) {
        Some(horovod) => beside(options, &horovod)?,
        None => println!("Horovod was not measured: HOROVOD_PYTHON names no Python that has it"),
    }
    let times = (0..options.rounds).map(|_| driver::reset(1000)).collect();
    println!("{:<40} {:>6.0} ms", "the driver alone, 1000 workers", median(times) * 1e3);
    let sync::Times { sync, copy } = sync::measure(&numpy, options.rounds)?;
    let what = format!("a state of {} MiB for a new rank", sync::MEGABYTES);
    println!("{what:<40} {:>6.0} ms, {:.1} times the {:.0} ms of np.copyto", sync * 1e3, sync / copy, copy * 1e3);
    Ok(())
}

/// The same script for both, and the hosts by a program that both ask every second: until they ask, nobody can know.
fn beside(options: &Options, horovod: &Peer) -> anyhow::Result<()> {
    let python = options.horovod_python.clone().unwrap_or_default();
    let both = measure(options.rounds, &Peer::with_torch(options, python), Some(horovod))?;
    println!("with PyTorch, from the answer that names the hosts; until the next step, when");
    both.print();
    Ok(())
}

/// By what was measured: the times of all rounds, ours and the peer's.
struct Table(Vec<(String, Vec<f64>, Vec<f64>)>);

fn measure(rounds: usize, own: &Peer, other: Option<&Peer>) -> anyhow::Result<Table> {
    let starts = RANKS.iter().map(|ranks| format!("start of {ranks} ranks, imports included"));
    let names = EVENTS.iter().map(|event| (*event).to_owned()).chain(starts);
    let mut table = Table(names.map(|name| (name, Vec::new(), Vec::new())).collect());
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for (row, seconds) in table.0.iter_mut().zip(one_round(own)?) {
            row.1.push(seconds);
        }
        // One that stands still must not take our figures with it.
        match other.map(one_round) {
            Some(Ok(found)) => table.0.iter_mut().zip(found).for_each(|(row, seconds)| row.2.push(seconds)),
            Some(Err(error)) => eprintln!("Horovod, round {round}: {error:#}"),
            None => {}
        }
    }
    Ok(table)
}

impl Table {
    fn print(&self) {
        for (what, own, other) in &self.0 {
            let own = median(own.clone());
            print!("{what:<40} {:>6.0} ms", own * 1e3);
            if !other.is_empty() {
                let (count, other) = (other.len(), median(other.clone()));
                print!(", Horovod {:>6.0} ms, {:.1}× ({count} rounds)", other * 1e3, other / own);
            }
            println!();
        }
    }
}

fn one_round(peer: &Peer) -> anyhow::Result<Vec<f64>> {
    let mut found = changes(peer)?.to_vec();
    for ranks in RANKS {
        found.push(start(peer, ranks)?);
    }
    Ok(found)
}

/// A worker dies, a host comes, a host goes: the seconds until the next step, imports not counted.
fn changes(peer: &Peer) -> anyhow::Result<[f64; 3]> {
    let [first, second] = HOSTS.map(|host| format!("{host}:1"));
    let (one, two) = ([&*first], [&*first, &*second]);
    let mut job = Job::start(peer, &two, "2")?;
    job.wait_for_step(2, 0.0)?;
    job::rest();
    let gone = job.set_hosts(&one)?;
    let after_going = job.wait_for_step(1, gone)? - gone;
    job::rest();
    let came = job.set_hosts(&two)?;
    let after_coming = job.wait_for_step(2, came)? - came - job.wait_for_imports(3)?;
    job::rest();
    let killed = job.kill_youngest()?;
    let after_kill = job.wait_for_step(1, killed)? - killed;
    Ok([after_kill, after_coming, after_going])
}

fn start(peer: &Peer, ranks: usize) -> anyhow::Result<f64> {
    let hosts = HOSTS.map(|host| format!("{host}:{}", ranks / HOSTS.len()));
    let begun = job::now();
    let mut job = Job::start(peer, &hosts.each_ref().map(|host| &**host), &ranks.to_string())?;
    Ok(job.wait_for_step(ranks, 0.0)? - begun)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
