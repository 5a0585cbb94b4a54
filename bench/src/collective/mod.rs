//! Allreduce among processes of this machine: in-place sums of float32, beside Open MPI in the same run.
//!
//! Ranks are processes of this program; those of Open MPI are Python processes that call its library directly. Each
//! figure is the median of its rounds, as the first rank sees it.

mod rank;

use std::{
    collections::BTreeMap,
    env,
    io::Write as _,
    process::{Child, Command, Stdio},
    str::FromStr,
};

use anyhow::{Context as _, bail};
use ronde_collective::{Secret, Server};

pub use self::rank::{RankArgs, run as run_rank};

const SECRET: &[u8] = b"of one measurement";
const OPEN_MPI: &str = include_str!("openmpi.py");
/// Bytes that all rounds of a size move together, so that each takes about as long; a call counts as 40 KB.
const BYTES_PER_SIZE: usize = 2_000_000_000;
const BYTES_PER_CALL: usize = 40_000;
const ROUNDS_MIN: usize = 5;
const ROUNDS_MAX: usize = 5000;

/// A size to measure, and how often.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    bytes: usize,
    rounds: usize,
}

impl FromStr for Size {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (bytes, rounds) = text.split_once(':').context("a size is `bytes:rounds`")?;
        Ok(Self { bytes: bytes.parse()?, rounds: rounds.parse()? })
    }
}

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// How many ranks; may be given several times.
    #[arg(long, default_values_t = [2, 4])]
    ranks: Vec<usize>,
    /// The largest tensor, in MB.
    #[arg(long, default_value_t = 256)]
    megabytes_max: usize,
    /// Use TCP instead of shared memory; Open MPI does the same.
    #[arg(long)]
    tcp: bool,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let sizes = sizes(options.megabytes_max * 1024 * 1024);
    for ranks in &options.ranks {
        eprintln!("{ranks} ranks");
        let own = measure_ronde(*ranks, options.tcp, &sizes)?;
        let peer =
            measure_open_mpi(*ranks, options.tcp, &sizes).inspect_err(|error| eprintln!("no Open MPI: {error:#}"));
        print_table(*ranks, &sizes, &own, &peer.unwrap_or_default());
    }
    Ok(())
}

/// 1 KB, 4 KB, 16 KB, …
fn sizes(bytes_max: usize) -> Vec<Size> {
    let each = std::iter::successors(Some(1024_usize), |bytes| bytes.checked_mul(4));
    let rounds = |bytes: usize| (BYTES_PER_SIZE / (bytes + BYTES_PER_CALL)).clamp(ROUNDS_MIN, ROUNDS_MAX);
    each.take_while(|bytes| *bytes <= bytes_max).map(|bytes| Size { bytes, rounds: rounds(bytes) }).collect()
}

fn arguments(sizes: &[Size]) -> impl Iterator<Item = String> {
    sizes.iter().map(|size| format!("{}:{}", size.bytes, size.rounds))
}

fn measure_ronde(ranks: usize, tcp: bool, sizes: &[Size]) -> anyhow::Result<BTreeMap<usize, f64>> {
    let server = Server::start("127.0.0.1:0".parse()?, Secret::new(SECRET))?;
    let program = env::current_exe()?;
    let start = |rank: usize| -> anyhow::Result<Child> {
        let mut command = Command::new(&program);
        command.arg("collective-rank").args(["--rank", &rank.to_string(), "--size", &ranks.to_string()]);
        command.args(["--rendezvous", &server.address().to_string()]).args(tcp.then_some("--tcp"));
        Ok(command.args(arguments(sizes)).stdout(Stdio::piped()).spawn()?)
    };
    let children: Vec<Child> = (0..ranks).map(start).collect::<anyhow::Result<_>>()?;
    let mut lines = String::new();
    for child in children {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("a rank failed");
        }
        lines.push_str(&String::from_utf8(output.stdout)?);
    }
    medians(&lines)
}

fn measure_open_mpi(ranks: usize, tcp: bool, sizes: &[Size]) -> anyhow::Result<BTreeMap<usize, f64>> {
    let mut script = tempfile::NamedTempFile::new()?;
    script.write_all(OPEN_MPI.as_bytes())?;
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-np", &ranks.to_string()]);
    if tcp {
        command.args(["--mca", "btl", "tcp,self"]);
    }
    let output =
        command.arg("python3").arg(script.path()).args(arguments(sizes)).output().context("cannot run mpirun")?;
    if !output.status.success() {
        bail!("mpirun failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    medians(&String::from_utf8(output.stdout)?)
}

/// Lines of bytes and microseconds.
fn medians(lines: &str) -> anyhow::Result<BTreeMap<usize, f64>> {
    let read = |line: &str| {
        let (bytes, median) = line.split_once(' ').context("a line without a median")?;
        Ok((bytes.parse()?, median.parse()?))
    };
    lines.lines().map(read).collect()
}

fn print_table(ranks: usize, sizes: &[Size], own: &BTreeMap<usize, f64>, peer: &BTreeMap<usize, f64>) {
    println!("{:<12} {:>14} {:>10} {:>14} {:>8}", format!("{ranks} ranks"), "ronde", "", "Open MPI", "ratio");
    for Size { bytes, .. } in sizes {
        let own = own.get(bytes).copied().unwrap_or(f64::NAN);
        let speed = *bytes as f64 / own / 1000.0;
        let peer = peer.get(bytes).map(|peer| (format!("{peer:.1} µs"), format!("{:.2}", peer / own)));
        let (peer, ratio) = peer.unwrap_or(("-".to_owned(), "-".to_owned()));
        println!("{:<12} {own:>11.1} µs {speed:>5.2} GB/s {peer:>14} {ratio:>8}", shown(*bytes));
    }
    println!();
}

fn shown(bytes: usize) -> String {
    if bytes < 1024 * 1024 { format!("{} KB", bytes / 1024) } else { format!("{} MB", bytes / 1024 / 1024) }
}
