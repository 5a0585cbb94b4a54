//! What Python says when it starts an engine, made a [`Config`].

use std::{path::PathBuf, time::Duration};

use pyo3::{exceptions::PyValueError, prelude::*};
use ronde_collective::{Config, Rank, Rendezvous, Secret, Stall, Transport};

/// The mapping that `ronde._settings` makes from the environment; every key is there.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    rank: usize,
    size: usize,
    /// `host:port`, or a directory that begins with a slash; none for a rank alone.
    rendezvous: Option<String>,
    secret: Vec<u8>,
    scope: String,
    host: String,
    is_tcp_only: bool,
    addresses: Vec<String>,
    start_timeout: f64,
    cache_capacity: usize,
    fusion_threshold: usize,
    cycle_time: f64,
    stall_warn_after: Option<f64>,
    stall_fail_after: Option<f64>,
    timeline: Option<PathBuf>,
    mark_cycles: bool,
    autotune: bool,
    autotune_log: Option<PathBuf>,
}

impl Options {
    pub(crate) fn config(self) -> PyResult<Config> {
        let rendezvous = match self.rendezvous {
            None => Rendezvous::Alone,
            Some(path) if path.starts_with('/') => Rendezvous::Directory(path.into()),
            Some(address) => Rendezvous::Server(address),
        };
        let mut config = Config::new(Rank(self.rank), self.size, rendezvous, Secret::new(&self.secret));
        config.scope = self.scope;
        config.host = self.host;
        config.transport = if self.is_tcp_only { Transport::Tcp } else { Transport::Auto };
        for address in self.addresses {
            let parsed = address.parse();
            config.addresses.push(parsed.map_err(|_| PyValueError::new_err(format!("`{address}` is not an address")))?);
        }
        config.start_timeout = seconds("start_timeout", self.start_timeout)?;
        config.cache_capacity = self.cache_capacity;
        config.fusion_threshold = self.fusion_threshold;
        config.cycle_time = seconds("cycle_time", self.cycle_time)?;
        config.stall = Stall {
            warn_after: self.stall_warn_after.map(|value| seconds("stall_warn_after", value)).transpose()?,
            fail_after: self.stall_fail_after.map(|value| seconds("stall_fail_after", value)).transpose()?,
        };
        config.timeline = self.timeline;
        config.mark_cycles = self.mark_cycles;
        config.autotune = self.autotune;
        config.autotune_log = self.autotune_log;
        Ok(config)
    }
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    let duration = Duration::try_from_secs_f64(value);
    duration.map_err(|_| PyValueError::new_err(format!("{name}: {value} is not a number of seconds")))
}
