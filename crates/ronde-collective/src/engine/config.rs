//! What an engine must be told. The environment is read by others, and comes in here as values.

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use crate::{handshake::Secret, rendezvous::Rendezvous, types::Rank};

/// How ranks of one host talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Shared memory where it works, else TCP.
    #[default]
    Auto,
    /// TCP, even between neighbours.
    Tcp,
}

/// Everything an engine needs to start. Limits and thresholds are those of the first rank on all ranks.
#[derive(Debug, Clone)]
pub struct Config {
    pub rank: Rank,
    pub size: usize,
    pub rendezvous: Rendezvous,
    /// Known to all ranks of the job and to nobody else.
    pub secret: Secret,
    /// New for every ring that is formed at one rendezvous.
    pub scope: String,
    /// Ranks that name different hosts never share memory.
    pub host: String,
    pub transport: Transport,
    /// Where peers may reach this rank; empty: every address of the machine.
    pub addresses: Vec<IpAddr>,
    /// How long forming the ring may take.
    pub start_timeout: Duration,
    /// Names that are remembered as agreed; 0 turns it off.
    pub cache_capacity: usize,
    /// Bytes that small tensors are put together up to; 0 turns it off.
    pub fusion_threshold: usize,
    /// How long the engine collects asynchronous work before it begins; zero begins at once.
    pub cycle_time: Duration,
    pub stall: Stall,
    /// Where the first rank writes a timeline.
    pub timeline: Option<PathBuf>,
    pub mark_cycles: bool,
    /// Whether the fusion threshold is found by trying.
    pub autotune: bool,
    pub autotune_log: Option<PathBuf>,
    /// Becomes true when nobody wants the ring any more, so that forming it ends before its time.
    pub is_given_up: Arc<AtomicBool>,
}

/// What is done about operations that not all ranks take part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// After this a warning names what waits for whom; none: never.
    pub warn_after: Option<Duration>,
    /// After this the engine gives up; none: never.
    pub fail_after: Option<Duration>,
}

impl Config {
    /// One rank of a job, with the defaults that Horovod's users know.
    pub fn new(rank: Rank, size: usize, rendezvous: Rendezvous, secret: Secret) -> Self {
        Self {
            rank,
            size,
            rendezvous,
            secret,
            scope: String::from("ring"),
            host: String::new(),
            transport: Transport::Auto,
            addresses: Vec::new(),
            start_timeout: Duration::from_secs(30),
            cache_capacity: 1024,
            fusion_threshold: 128 * 1024 * 1024,
            cycle_time: Duration::ZERO,
            stall: Stall { warn_after: Some(Duration::from_secs(60)), fail_after: None },
            timeline: None,
            mark_cycles: false,
            autotune: false,
            autotune_log: None,
            is_given_up: Arc::default(),
        }
    }

    /// A ring of one, for scripts that are started without a launcher.
    pub fn alone() -> Self {
        Self::new(Rank(0), 1, Rendezvous::Alone, Secret::new(b""))
    }
}
