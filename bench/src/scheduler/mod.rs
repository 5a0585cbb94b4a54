//! The scheduler's decision alone: no API, no network, one core.
//!
//! For growing clusters it prints how long it takes to take note of everything, to place all gangs in one cycle, and to decide
//! again after one change. The units follow the costs in the crate's docs: nodes × pods.

mod load;

use std::{collections::BTreeMap, time::Instant};

use ronde_scheduler::{Cluster, Policy, Time};

use self::load::{Kind, Load};

/// Nodes and pods of each row.
const SIZES: [(usize, usize); 6] =
    [(100, 1_000), (1_000, 10_000), (2_500, 25_000), (5_000, 50_000), (10_000, 50_000), (10_000, 100_000)];
/// Single changes that are measured on each cluster.
const CHANGES: usize = 200;

/// What was measured of one size, in milliseconds.
struct Row {
    apply: f64,
    decide: f64,
    placed: usize,
    waiting: usize,
    change_median: f64,
    change_max: f64,
    /// The longest of each kind of change.
    longest: BTreeMap<Kind, f64>,
}

pub fn run(rounds: usize) -> anyhow::Result<()> {
    println!(
        "{:>7} {:>8} {:>8} {:>9} {:>10} {:>11} {:>10} {:>12} {:>12}",
        "NODES", "PODS", "PLACED", "WAITING", "APPLY ms", "DECIDE ms", "us/POD", "CHANGE ms", "(longest)"
    );
    for (nodes, pods) in SIZES {
        let mut rows = (0..rounds).map(|_| measure(nodes, pods)).collect::<anyhow::Result<Vec<Row>>>()?;
        rows.sort_by(|a, b| a.decide.total_cmp(&b.decide));
        let row = &rows[rows.len() / 2];
        println!(
            "{nodes:>7} {pods:>8} {:>8} {:>9} {:>10.1} {:>11.1} {:>10.2} {:>12.3} {:>12.3}",
            row.placed,
            row.waiting,
            row.apply,
            row.decide,
            1000.0 * row.decide / pods as f64,
            row.change_median,
            row.change_max
        );
        let longest: Vec<String> = row.longest.iter().map(|(kind, ms)| format!("{kind:?} {ms:.3}")).collect();
        println!("{:>16} longest by kind: {}", "", longest.join(", "));
    }
    Ok(())
}

fn measure(nodes: usize, pods: usize) -> anyhow::Result<Row> {
    let mut load = Load::new(nodes, pods);
    let mut cluster = Cluster::new(Policy::default());
    let changes = load.everything();
    let start = Instant::now();
    changes.into_iter().for_each(|change| cluster.apply(change));
    let apply = ms(start);
    let start = Instant::now();
    let plan = cluster.cycle(Time::from_millis(0));
    let decide = ms(start);
    let placed = load.note(&plan);
    anyhow::ensure!(placed * 10 >= pods * 8, "only {placed} of {pods} pods were placed");
    let waiting = cluster.waiting().len();
    // The binds are seen, as a watch would tell them.
    load.seen().into_iter().for_each(|change| cluster.apply(change));
    cluster.cycle(Time::from_millis(1));
    let (mut times, mut longest) = (Vec::new(), BTreeMap::new());
    for number in 0..CHANGES {
        let (kind, changes) = load.one_change(number);
        let start = Instant::now();
        changes.into_iter().for_each(|change| cluster.apply(change));
        let plan = cluster.cycle(Time::from_millis(2));
        let took = ms(start);
        times.push(took);
        longest.entry(kind).and_modify(|most| *most = took.max(*most)).or_insert(took);
        load.note(&plan);
    }
    times.sort_by(f64::total_cmp);
    let (change_median, change_max) = (times[times.len() / 2], times[times.len() - 1]);
    Ok(Row { apply, decide, placed, waiting, change_median, change_max, longest })
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1000.0
}
