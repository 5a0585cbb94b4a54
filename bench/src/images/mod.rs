//! Images: how long they take to pull and unpack, what memory that takes, and how fast pods of a stored image start.
//!
//! One registry on loopback serves both. Ours pulls by `ronde image pull`, the real node by `ctr` into the containerd
//! that its kubelet uses; the pods are started through the API of each. What was written is synced before each
//! measurement, so that neither waits for the other's pages.

mod registry;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use tokio::process::Command;

use self::registry::Registry;
use crate::{
    node::{cluster::Cluster, load::Load, median},
    table::{self, Aim, Line, line},
};

const PODS_ONE_AFTER_THE_OTHER: usize = 10;
const PODS_AT_ONCE: usize = 20;
/// How often the memory is looked at; the kernel keeps the peak until the process ends.
const LOOK: Duration = Duration::from_millis(20);

/// What was measured of one of the two.
#[derive(Debug, Clone, Copy)]
struct Measured {
    pulled_s: f64,
    pulled_next_s: f64,
    peak_mb: f64,
    first_ms: f64,
    started_ms: f64,
    at_once_s: f64,
}

const LINES: [Line<Measured>; 6] = [
    line("pull and unpack, 1 GB in 10 layers", "s", |of| of.pulled_s, Aim::Times(1.0)),
    line("the next image, 9 layers of it here already", "s", |of| of.pulled_next_s, Aim::Times(1.0)),
    line("memory while pulling, at most", "MB", |of| of.peak_mb, Aim::Below(100.0)),
    line("first pod of the stored image, to Running", "ms", |of| of.first_ms, Aim::Times(5.0)),
    line("further pods, to Running, median", "ms", |of| of.started_ms, Aim::Times(5.0)),
    line("20 pods at once, all Running", "s", |of| of.at_once_s, Aim::Times(5.0)),
];

/// `kubelet` is the script that runs the real node.
pub async fn run(ronde: &Path, kubelet: &Path) -> anyhow::Result<()> {
    eprintln!("making two images of ten layers, nine of them shared");
    let registry = Registry::start().await?;
    eprintln!("ronde");
    let ours = measure_and_stop(Cluster::ronde(ronde).await?, &registry).await?;
    eprintln!("kubernetes, with kubelet and containerd");
    let has_peer = Command::new(kubelet).arg("check").status().await?.success();
    let theirs =
        if has_peer { Some(measure_and_stop(Cluster::kubernetes(kubelet).await?, &registry).await?) } else { None };
    println!("{}", table::render(&LINES, &ours, theirs.as_ref()));
    if theirs.is_none() {
        println!("containerd was not measured: this machine lacks what is named above.");
    }
    Ok(())
}

/// The cluster is stopped whatever happens.
async fn measure_and_stop(cluster: Cluster, registry: &Registry) -> anyhow::Result<Measured> {
    let measured = tokio::select! {
        measured = measure(&cluster, registry) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    cluster.stop().await?;
    measured
}

async fn measure(cluster: &Cluster, registry: &Registry) -> anyhow::Result<Measured> {
    let (image, next) = (registry.image("first"), registry.image("second"));
    eprintln!("  pull and unpack");
    let (pulled_s, peak) = pull(cluster, &image).await?;
    let (pulled_next_s, peak_next) = pull(cluster, &next).await?;

    let load = Load::new(cluster.client().await?, &image);
    eprintln!("  {PODS_ONE_AFTER_THE_OTHER} pods one after the other");
    let times = load.one_after_the_other(PODS_ONE_AFTER_THE_OTHER).await?;
    eprintln!("  {PODS_AT_ONCE} pods at once");
    let at_once_s = load.all_at_once(PODS_AT_ONCE).await?;
    load.delete_down_to(0).await?;
    Ok(Measured {
        pulled_s,
        pulled_next_s,
        peak_mb: peak.max(peak_next),
        first_ms: times.started_ms[0],
        started_ms: median(&times.started_ms[1..]),
        at_once_s,
    })
}

/// Returns the seconds that it took, and the most memory that the pulling process had.
async fn pull(cluster: &Cluster, image: &str) -> anyhow::Result<(f64, f64)> {
    anyhow::ensure!(Command::new("sync").status().await?.success(), "sync failed");
    let begun = Instant::now();
    let mut child = cluster.pull(image).kill_on_drop(true).spawn()?;
    let puller = cluster.containerd()?.or(child.id());
    let mut peak = 0.0_f64;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            () = tokio::time::sleep(LOOK) => peak = peak.max(puller.map_or(0.0, peak_mb)),
        }
    };
    anyhow::ensure!(status.success(), "cannot pull {image}");
    Ok((begun.elapsed().as_secs_f64(), peak))
}

/// Returns the most memory that a process had so far.
fn peak_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1000.0
}
