//! The API server beside the real one: the same client, the same work, one after the other, again and again.
//!
//! Both are measured over TLS on loopback and both sync every write to the same disk. Only one of them runs at a time,
//! so that neither takes the other's processor. The rounds alternate; the table shows medians.

mod load;
mod peer;
mod watchers;

use std::path::Path;

use self::peer::Peer;

/// What was measured of one server in one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    ready_s: f64,
    idle_mb: f64,
    creates_per_s: f64,
    list_ms: f64,
    answered_ms: f64,
    seen_ms: f64,
}

/// (name, unit, how to read it, whether more is better)
type Line = (&'static str, &'static str, fn(&Round) -> f64, bool);

const LINES: [Line; 6] = [
    ("ready to serve", "s", |round| round.ready_s, false),
    ("memory when idle", "MB", |round| round.idle_mb, false),
    ("durable creates, 16 clients", "/s", |round| round.creates_per_s, true),
    ("list of 5 000 pods", "ms", |round| round.list_ms, false),
    ("one update to 200 watchers", "ms", |round| round.seen_ms, false),
    ("  of it, until it is answered", "ms", |round| round.answered_ms, false),
];

pub async fn run(ronde: &Path, kubernetes: Option<&Path>, rounds: usize) -> anyhow::Result<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for number in 1..=rounds {
        eprintln!("round {number} of {rounds}: ronde");
        ours.push(measure(Peer::ronde(ronde).await?).await?);
        if let Some(script) = kubernetes {
            eprintln!("round {number} of {rounds}: kube-apiserver and etcd");
            theirs.push(measure(Peer::kubernetes(script).await?).await?);
        }
    }
    println!("{:<30} {:>12} {:>12} {:>8}", "", "ronde", "kubernetes", "ratio");
    for line in LINES {
        println!("{}", row(line, &ours, &theirs));
    }
    Ok(())
}

fn row((name, unit, read, more_is_better): Line, ours: &[Round], theirs: &[Round]) -> String {
    let mine = median(ours, read);
    let alone = format!("{name:<30} {:>12}", shown(mine, unit));
    if theirs.is_empty() {
        return alone;
    }
    let peer = median(theirs, read);
    let ratio = if more_is_better { mine / peer } else { peer / mine };
    format!("{alone} {:>12} {ratio:>7.1}x", shown(peer, unit))
}

async fn measure(peer: Peer) -> anyhow::Result<Round> {
    let idle_mb = peer.idle_mb().await?;
    let creates_per_s = load::creates_per_second(&peer).await?;
    let list_ms = load::list_pods_ms(&peer).await?;
    let load::FanOut { answered_ms, seen_ms } = load::fan_out(&peer).await?;
    let round = Round { ready_s: peer.ready_s, idle_mb, creates_per_s, list_ms, answered_ms, seen_ms };
    peer.stop().await?;
    Ok(round)
}

fn median(rounds: &[Round], read: fn(&Round) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(read).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn shown(value: f64, unit: &str) -> String {
    if value < 10.0 { format!("{value:.2} {unit}") } else { format!("{value:.0} {unit}") }
}
