//! Elastic jobs: how long a training stands still when ranks die, come and go, and how long a start takes.
//!
//! Times are from the cause to the end of the next step, as the workers themselves say it, with Python and NumPy. The
//! driver's decisions alone are measured for a thousand workers, and the hand-over of a large state beside a copy.

mod driver;
mod job;
mod sync;

use std::path::PathBuf;

use clap::Args;

use self::job::Job;

#[derive(Args)]
pub struct Options {
    /// The launcher to measure.
    #[arg(long)]
    launcher: PathBuf,
    /// The engine as an extension module for Python.
    #[arg(long)]
    library: PathBuf,
    /// A Python with NumPy and cloudpickle.
    #[arg(long, default_value = "python3")]
    python: String,
    /// Rounds of each measurement; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Seconds seen with Elastic Horovod 0.28 on PyTorch 1.13, two ranks of one machine, without its imports.
const HOROVOD: [(&str, f64); 3] = [("a worker is killed", 0.2), ("a host comes", 0.9), ("a host goes", 0.25)];

pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        rounds.push(changes(options)?);
    }
    println!("{:<40} {:>9} {:>16}", "until the next step, when", "Ronde", "Horovod's figure");
    for (index, (what, horovod)) in HOROVOD.iter().enumerate() {
        let own = median(rounds.iter().map(|round| round[index]).collect());
        println!("{what:<40} {:>6.0} ms {:>13.0} ms", own * 1e3, horovod * 1e3);
    }
    for ranks in [2, 4, 8] {
        let times = (0..options.rounds).map(|_| start(options, ranks)).collect::<anyhow::Result<Vec<f64>>>()?;
        println!("{:<40} {:>6.0} ms", format!("start of {ranks} ranks, imports included"), median(times) * 1e3);
    }
    let times = (0..options.rounds).map(|_| driver::reset(1000)).collect();
    println!("{:<40} {:>6.0} ms", "the driver alone, 1000 workers", median(times) * 1e3);
    let sync::Times { sync, copy } = sync::measure(options)?;
    let what = format!("a state of {} MiB for a new rank", sync::MEGABYTES);
    println!("{what:<40} {:>6.0} ms, {:.1} times the {:.0} ms of np.copyto", sync * 1e3, sync / copy, copy * 1e3);
    println!("Horovod's figures were seen on another day, and are not measured here: it does not install.");
    Ok(())
}

/// A worker dies, a host comes, a host goes: the seconds until the next step, imports not counted.
fn changes(options: &Options) -> anyhow::Result<[f64; 3]> {
    let mut job = Job::start(options, "localhost:1\n127.0.0.2:1\n", "-np 2 --min-np 1")?;
    job.wait_for_step(2, 0.0)?;
    let killed = job.kill_youngest()?;
    let after_kill = job.wait_for_step(1, killed)? - killed;
    job.set_hosts("localhost:1\n")?;
    let came = job.set_hosts("localhost:1\n127.0.0.3:1\n")?;
    let first = job.wait_for_step(2, came)?;
    let after_coming = first - came - job.last_imports()?;
    let gone = job.set_hosts("localhost:1\n")?;
    let after_going = job.wait_for_step(1, gone)? - gone;
    Ok([after_kill, after_coming, after_going])
}

fn start(options: &Options, ranks: usize) -> anyhow::Result<f64> {
    let begun = job::now();
    let mut job = Job::start(options, &format!("localhost:{ranks}\n"), &format!("-np {ranks}"))?;
    Ok(job.wait_for_step(ranks, 0.0)? - begun)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
