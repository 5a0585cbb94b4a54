//! The node: how long pods take to start and end, what they cost, and how fast their words reach the log.
//!
//! One instance of `ronde up`, then a real Kubernetes with kubelet and containerd, each alone on the machine:
//! the same pods, one measurement after the other, over TLS as any client would. Where the real one cannot
//! run, the reason is said and ours is measured alone.

pub mod cluster;
pub mod load;
pub mod usage;

use std::path::Path;

use tokio::process::Command;

use self::{cluster::Cluster, load::Load};
use crate::table::{self, Aim, Line, line};

const PODS_ONE_AFTER_THE_OTHER: usize = 100;
/// Each takes the real one about 3 s: a minute.
const PODS_ONE_AFTER_THE_OTHER_PEER: usize = 20;
const PODS_AT_ONCE: usize = 100;
const PODS_AT_REST: usize = 50;

/// What pods of the image without a registry run: kubelet's script makes it, and ours see this machine's files.
const IMAGE: &str = "busybox";

/// What was measured of one cluster.
#[derive(Debug, Clone, Copy)]
struct Measured {
    started_ms: f64,
    started_worst_ms: f64,
    gone_ms: f64,
    at_once_s: f64,
    pod_mb: f64,
    daemons_mb: f64,
    rest_percent: f64,
    exec_ms: f64,
    log_mb_per_s: f64,
    lost_lines: f64,
}

const LINES: [Line<Measured>; 10] = [
    line("create to Running, median", "ms", |of| of.started_ms, Aim::Below(100.0)),
    line("create to Running, p99", "ms", |of| of.started_worst_ms, Aim::Below(250.0)),
    line("delete to gone, median", "ms", |of| of.gone_ms, Aim::Below(100.0)),
    line("100 pods at once, all Running", "s", |of| of.at_once_s, Aim::Below(5.0)),
    line("memory per pod, of the runtime's processes", "MB", |of| of.pod_mb, Aim::Below(3.0)),
    line("memory of the daemons, with 100 pods", "MB", |of| of.daemons_mb, Aim::Less),
    line("processor at rest with 50 pods", "%", |of| of.rest_percent, Aim::Below(1.0)),
    line("exec round trip, median", "ms", |of| of.exec_ms, Aim::Below(30.0)),
    line("words into the log", "MB/s", |of| of.log_mb_per_s, Aim::Above(200.0)),
    line("last of 200 000 lines that the log lost", "lines", |of| of.lost_lines, Aim::Below(1.0)),
];

/// `kubelet` is the script that runs the real one.
pub async fn run(ronde: &Path, kubelet: &Path) -> anyhow::Result<()> {
    eprintln!("ronde");
    let ours = measure_and_stop(Cluster::ronde(ronde).await?, PODS_ONE_AFTER_THE_OTHER).await?;
    eprintln!("kubernetes, with kubelet and containerd");
    let has_peer = Command::new(kubelet).arg("check").status().await?.success();
    let theirs = if has_peer { Some(measure_peer(kubelet).await) } else { None };
    // Ours is worth showing even when the other failed.
    println!("{}", table::render(&LINES, &ours, theirs.as_ref().and_then(|theirs| theirs.as_ref().ok())));
    match theirs {
        Some(Ok(_)) => println!("{}", notes()),
        Some(Err(error)) => return Err(error.context("kubernetes could not be measured")),
        None => println!("Kubernetes was not measured: this machine lacks what is named above."),
    }
    Ok(())
}

fn notes() -> String {
    format!(
        "Pods one after the other: {PODS_ONE_AFTER_THE_OTHER} on ronde, {PODS_ONE_AFTER_THE_OTHER_PEER} on kubernetes, \
         whose slowest one is shown.\n\
         Processes for pods: supervisors and first processes of ronde; shims and sandboxes of containerd.\n\
         Daemons: ronde; etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and containerd.\n\
         The processor at rest counts all of these."
    )
}

async fn measure_peer(kubelet: &Path) -> anyhow::Result<Measured> {
    measure_and_stop(Cluster::kubernetes(kubelet).await?, PODS_ONE_AFTER_THE_OTHER_PEER).await
}

/// The cluster is stopped whatever happens.
async fn measure_and_stop(cluster: Cluster, one_after_the_other: usize) -> anyhow::Result<Measured> {
    let measured = tokio::select! {
        measured = measure(&cluster, one_after_the_other) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    cluster.stop().await?;
    measured
}

async fn measure(cluster: &Cluster, one_after_the_other: usize) -> anyhow::Result<Measured> {
    let load = Load::new(cluster.client().await?, IMAGE);
    let usage = cluster.usage().await?;

    eprintln!("  {one_after_the_other} pods one after the other");
    let one = load.one_after_the_other(one_after_the_other).await?;

    eprintln!("  {PODS_AT_ONCE} pods at once");
    let at_once_s = load.all_at_once(PODS_AT_ONCE).await?;
    let pod_mb = usage.pods_mb()? / PODS_AT_ONCE as f64;
    let daemons_mb = usage.daemons_mb()?;

    eprintln!("  {PODS_AT_REST} pods at rest");
    load.delete_down_to(PODS_AT_REST).await?;
    let rest_percent = usage.percent_at_rest().await?;

    eprintln!("  exec");
    let exec_ms = median(&load.exec_ms().await?);
    load.delete_down_to(0).await?;

    eprintln!("  logs");
    let log_mb_per_s = load.log_megabytes_per_second().await?;
    let lost_lines = load.lost_lines().await? as f64;
    Ok(Measured {
        started_ms: median(&one.started_ms),
        started_worst_ms: quantile(&one.started_ms, 0.99),
        gone_ms: median(&one.gone_ms),
        at_once_s,
        pod_mb,
        daemons_mb,
        rest_percent,
        exec_ms,
        log_mb_per_s,
        lost_lines,
    })
}

pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns the value that so many of the others do not exceed.
fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short list")]
    let place = (sorted.len() as f64 * part) as usize;
    sorted[place.min(sorted.len() - 1)]
}
