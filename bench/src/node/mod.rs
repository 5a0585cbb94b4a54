//! The node: how long pods take to start and end, what they cost, and how fast their words reach the log.
//!
//! One instance of `ronde up`, one measurement after the other, over TLS as any client would. A kubelet with
//! containerd beside it is not started yet: its column says so.

mod cluster;
mod load;
mod usage;

use std::path::Path;

use self::{cluster::Cluster, load::Load, usage::Usage};

/// A measured value with what it should be.
struct Line {
    name: &'static str,
    value: f64,
    unit: &'static str,
    aim: Aim,
}

enum Aim {
    Below(f64),
    Above(f64),
}

pub async fn run(ronde: &Path) -> anyhow::Result<()> {
    let cluster = Cluster::start(ronde).await?;
    let measured = measure(&cluster).await;
    cluster.stop().await?;
    println!("{:<44} {:>12} {:>12} {:>18}", "", "ronde", "aim", "kubelet+containerd");
    for Line { name, value, unit, aim } in measured? {
        let (sign, limit, is_met) = match aim {
            Aim::Below(limit) => ('<', limit, value < limit),
            Aim::Above(limit) => ('>', limit, value > limit),
        };
        let missed = if is_met { "" } else { "   missed" };
        println!("{name:<44} {:>12} {:>12} {:>18}{missed}", shown(value, unit), format!("{sign} {limit} {unit}"), "-");
    }
    println!("\nThe column of kubelet and containerd is empty: they are not started by this bench yet.");
    Ok(())
}

async fn measure(cluster: &Cluster) -> anyhow::Result<Vec<Line>> {
    let load = Load::new(cluster.client().await?);
    let usage = Usage::new(&cluster.program, cluster.pid);
    let mut lines = Vec::new();
    let mut add = |name, value, unit, aim| lines.push(Line { name, value, unit, aim });

    eprintln!("pods one after the other");
    let one = load.one_after_the_other().await?;
    add("create to Running, median of 100", median(&one.started_ms), "ms", Aim::Below(100.0));
    add("create to Running, p99 of 100", quantile(&one.started_ms, 0.99), "ms", Aim::Below(250.0));
    add("delete to gone, median of 100", median(&one.gone_ms), "ms", Aim::Below(100.0));

    eprintln!("100 pods at once");
    add("100 pods at once, all Running", load.all_at_once(100).await?, "s", Aim::Below(5.0));
    add("memory per pod, of our processes", usage.megabytes()? / 100.0, "MB", Aim::Below(3.0));

    eprintln!("50 pods at rest");
    load.delete_down_to(50).await?;
    add("processor at rest with 50 pods", usage.percent_at_rest().await?, "%", Aim::Below(1.0));

    eprintln!("exec");
    add("exec round trip, median of 50", median(&load.exec_ms().await?), "ms", Aim::Below(30.0));
    load.delete_down_to(0).await?;

    eprintln!("logs");
    add("words into the log", load.log_megabytes_per_second().await?, "MB/s", Aim::Above(200.0));
    load.check_that_no_line_is_lost().await?;
    Ok(lines)
}

fn median(values: &[f64]) -> f64 {
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

fn shown(value: f64, unit: &str) -> String {
    if value < 10.0 { format!("{value:.2} {unit}") } else { format!("{value:.0} {unit}") }
}
