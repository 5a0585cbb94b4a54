//! Small stories whose end can be worked out by hand.

use ronde_simulate::{
    Report, Scenario, Span,
    input::{cluster, faults::faults, jobs},
    simulate,
};

/// Runs jobs of a table on nodes; returns when each started, ended and how often it broke.
fn told(nodes: &str, table: &str, sentences: &[&str]) -> String {
    let scenario = scenario(nodes, table, sentences);
    let history = simulate(&scenario, &mut |_, _| {});
    let line = |(job, record): (&ronde_simulate::Job, &ronde_simulate::Record)| {
        let shown = |at: Option<i64>| at.map_or("never".to_owned(), |at| Span(at).to_string());
        let breaks = if record.breaks > 0 { format!(" broke {}", record.breaks) } else { String::new() };
        format!("{} {}..{}{breaks}", job.group.id.name(), shown(record.first_start), shown(record.end))
    };
    scenario.jobs.iter().zip(&history.records).map(line).collect::<Vec<_>>().join("; ")
}

fn scenario(nodes: &str, table: &str, sentences: &[&str]) -> Scenario {
    let nodes = cluster::nodes(nodes).expect("nodes");
    let jobs = jobs::read(table).expect("jobs").jobs;
    let faults = sentences.iter().flat_map(|text| faults(text, &nodes).expect("a fault")).collect();
    Scenario { nodes, jobs, faults, ..Scenario::default() }
}

#[track_caller]
fn check(name: &str, nodes: &str, table: &str, sentences: &[&str], expected: &str) {
    assert_eq!(told(nodes, table, sentences), expected, "{name}");
}

const HEAD: &str = "name,arrival,replicas,min,max,elastic,gpu,run,priority,checkpoint\n";

#[track_caller]
fn rows(name: &str, nodes: &str, rows: &str, sentences: &[&str], expected: &str) {
    check(name, nodes, &format!("{HEAD}{rows}"), sentences, expected);
}

#[test]
fn gangs_wait_for_each_other() {
    let two = "a,0,2,,,,4,1h,,\nb,1m,2,,,,4,30m,,\n";
    rows("room for one", "2x4gpu", two, &[], "a 0s..1h; b 1h..1h30m");
    rows("room for both", "4x4gpu", two, &[], "a 0s..1h; b 1m..31m");
    rows("never", "1x4gpu", two, &[], "a never..never; b never..never");
    rows("a node comes", "1x4gpu", two, &["add 1x4gpu at 10m"], "a 10m..1h10m; b 1h10m..1h40m");
}

#[test]
fn a_small_one_goes_first_if_there_is_room() {
    let three = "a,0,1,,,,4,1h,,\nbig,1m,2,,,,4,1h,,\nsmall,2m,1,,,,4,2m,,\n";
    rows("backfill", "2x4gpu", three, &[], "a 0s..1h; big 1h..2h; small 2m..4m");
}

#[test]
fn who_is_more_important_pushes_out() {
    let two = "low,0,2,,,,4,1h,0,\nhigh,20m,2,,,,4,10m,9,\n";
    rows("from the beginning", "2x4gpu", two, &[], "low 0s..1h30m broke 1; high 20m..30m");
    let saved = two.replace("4,1h,0,", "4,1h,0,15m");
    rows("from the last checkpoint", "2x4gpu", &saved, &[], "low 0s..1h15m broke 1; high 20m..30m");
}

#[test]
fn lost_nodes_break_gangs() {
    let one = "a,0,2,,,,4,1h,,10m\n";
    rows("lost for a while", "2x4gpu", one, &["lose node-1 at 25m for 5m"], "a 0s..1h10m broke 1");
    rows("with a spare", "3x4gpu", one, &["lose node-1 at 25m"], "a 0s..1h5m broke 1");
    rows("taken back after a notice", "3x4gpu", one, &["reclaim node-1 at 23m notice 2m"], "a 0s..1h5m broke 1");
    rows("emptied", "3x4gpu", one, &["drain node-1 at 25m for 1h"], "a 0s..1h5m broke 1");
}

#[test]
fn elastic_jobs_go_as_fast_as_they_have_workers() {
    let grows = "a,0,2,1,4,auto,4,2h,,\n";
    // Two workers for a minute, then four.
    rows("it grows", "4x4gpu", grows, &[], "a 0s..1h");
    let shares = format!("{grows}b,30m,2,,,,4,10m,,\n");
    rows("it gives back", "4x4gpu", &shares, &[], "a 0s..1h5m; b 30m..40m");
    let table = format!("{HEAD}{grows}");
    let scenario = scenario("4x4gpu", &table, &[]);
    let gains = Report::new(&scenario, &simulate(&scenario, &mut |_, _| {})).elastic.expect("there is one");
    assert_eq!((gains.jobs, gains.resizes, gains.asked), (1, 1, 7_200_000));
}

#[test]
fn two_that_push_each_other_out_in_turn_are_given_up() {
    // One is above the part of its queue and more important, the other below; neither can run its time.
    let table = "name,arrival,queue,gpu,run,priority\nhigh,0,a,4,1h,9\nlow,1m,b,1,1h,0\n";
    let scenario = scenario("1x4gpu", table, &[]);
    let history = simulate(&scenario, &mut |_, _| {});
    assert_eq!(history.circle, Some(0));
    let summary = Report::new(&scenario, &history).summary();
    assert!(
        summary.contains(&("circle".to_owned(), "given up: `high` was pushed out 1000 times".to_owned())),
        "{summary:?}"
    );
}
