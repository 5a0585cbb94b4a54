//! What our own processes take: those that run the measured program, not what pods run.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;

/// Long enough to see a heartbeat.
const REST: Duration = Duration::from_secs(15);
/// Ticks that the kernel counts in a second, on every machine that matters.
const TICKS_PER_SECOND: f64 = 100.0;

pub struct Usage {
    program: PathBuf,
    daemon: u32,
}

impl Usage {
    pub fn new(program: &Path, daemon: u32) -> Self {
        Self { program: program.to_owned(), daemon }
    }

    /// The memory of supervisors and first processes of containers; shared pages are counted once.
    pub fn megabytes(&self) -> anyhow::Result<f64> {
        let pids = self.processes()?.into_iter().filter(|pid| *pid != self.daemon);
        let kilobytes: f64 = pids.filter_map(proportional_kilobytes).sum();
        Ok(kilobytes / 1024.0)
    }

    /// The share of one core that the daemon and all others take while nothing happens.
    pub async fn percent_at_rest(&self) -> anyhow::Result<f64> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = self.ticks()?;
        tokio::time::sleep(REST).await;
        Ok((self.ticks()? - before) / TICKS_PER_SECOND / REST.as_secs_f64() * 100.0)
    }

    fn ticks(&self) -> anyhow::Result<f64> {
        Ok(self.processes()?.into_iter().filter_map(ticks_of).sum())
    }

    fn processes(&self) -> anyhow::Result<Vec<u32>> {
        let names = std::fs::read_dir("/proc").context("no /proc")?.filter_map(|entry| Some(entry.ok()?.file_name()));
        let pids = names.filter_map(|name| name.to_str()?.parse().ok());
        let is_ours = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == self.program);
        Ok(pids.filter(is_ours).collect())
    }
}

fn proportional_kilobytes(pid: u32) -> Option<f64> {
    let sizes = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    sizes.lines().find_map(|line| line.strip_prefix("Pss:"))?.split_whitespace().next()?.parse().ok()
}

fn ticks_of(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
}
