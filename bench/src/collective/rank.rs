//! One rank of the measurement: a process of its own.

use std::{net::SocketAddr, time::Instant};

use anyhow::Context as _;
use ronde_collective::{
    Buffer, Config, DataType, Engine, Operation, Rank, ReduceOp, Rendezvous, Secret, Tensor, Transport, Work,
};

use super::{SECRET, Size};

/// Calls before the measured ones: names become known, pages appear.
const WARM_UP: usize = 3;

/// What a rank is told by its parent.
#[derive(Debug, Clone, clap::Args)]
pub struct RankArgs {
    #[arg(long)]
    rank: usize,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    rendezvous: SocketAddr,
    #[arg(long)]
    tcp: bool,
    /// Bytes and rounds, as `bytes:rounds`.
    sizes: Vec<Size>,
}

/// Measures all sizes; the first rank prints bytes and the median in microseconds.
pub fn run(args: &RankArgs) -> anyhow::Result<()> {
    let rendezvous = Rendezvous::Server(args.rendezvous.to_string());
    let mut config = Config::new(Rank(args.rank), args.size, rendezvous, Secret::new(SECRET));
    if args.tcp {
        config.transport = Transport::Tcp;
    }
    let engine = Engine::start(config)?;
    for size in &args.sizes {
        let median = measure(&engine, *size)?;
        if args.rank == 0 {
            println!("{} {median}", size.bytes);
        }
    }
    Ok(())
}

fn measure(engine: &Engine, size: Size) -> anyhow::Result<f64> {
    let name = format!("sum of {}", size.bytes);
    let mut data = Buffer::zeroed(size.bytes);
    let mut times = Vec::with_capacity(size.rounds);
    for round in 0..size.rounds + WARM_UP {
        let begun = Instant::now();
        let tensor = Tensor::new(DataType::F32, [size.bytes / 4], data);
        let work = Work::new(name.as_str(), Operation::Allreduce(ReduceOp::Sum.into()), vec![tensor]);
        data = engine.run(work)?.tensors.pop().context("an allreduce without a result")?.buffer;
        if round >= WARM_UP {
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
