//! Alerts and dashboards of the operator's chart: each metric and label in them is one that the program has, and the alerts
//! are those of the page about operations.

use std::collections::BTreeSet;

use regex::Regex;
use ronde_text::metrics::{Metric, MetricKind};
use serde_json::Value;

use super::root;

/// Labels that Prometheus adds, and the one of buckets.
const ADDED: [&str; 3] = ["namespace", "pod", "le"];
/// What the page says of things that are not about an operator on a cluster.
const ELSEWHERE: &str = "One machine only:";

fn metrics() -> impl Iterator<Item = &'static Metric> {
    ronde_control::metrics::OPERATOR.into_iter().chain(ronde_control::metrics::of_controllers())
}

fn read(path: &str) -> String {
    fs_err::read_to_string(root().join(path)).unwrap()
}

/// Returns the metric that a series belongs to: buckets, sums and counts are those of histograms.
fn metric_of(series: &str) -> Option<&'static Metric> {
    metrics().find(|metric| match metric.kind {
        MetricKind::Histogram(_) => {
            ["_bucket", "_sum", "_count"].iter().any(|part| series.strip_suffix(part) == Some(metric.name))
        }
        MetricKind::Counter | MetricKind::Gauge => series == metric.name,
    })
}

/// Says what an expression asks for that no operator tells; collects the metrics that it asks for.
fn faults(expression: &str, asked: &mut BTreeSet<&'static str>) -> Vec<String> {
    let series = Regex::new(r"(ronde_[a-z_]+)(?:\{([^}]*)\})?").unwrap();
    let (matcher, by) = (Regex::new(r"([a-z_]+)\s*(?:=|!)").unwrap(), Regex::new(r"by \(([^)]*)\)").unwrap());
    let mut faults = Vec::new();
    let mut labels: BTreeSet<&str> = ADDED.into();
    for found in series.captures_iter(expression) {
        let Some(metric) = metric_of(&found[1]) else {
            faults.push(format!("`{}` is no metric", &found[1]));
            continue;
        };
        asked.insert(metric.name);
        labels.extend(metric.labels);
        let selector = found.get(2).map_or("", |selector| selector.as_str());
        let selected = matcher.captures_iter(selector).map(|label| label.get(1).unwrap().as_str());
        let unknown = selected.filter(|label| !metric.labels.contains(label) && !ADDED.contains(label));
        faults.extend(unknown.map(|label| format!("`{}` has no label `{label}`", metric.name)));
    }
    let grouped = by.captures_iter(expression).flat_map(|group| {
        let labels = group.get(1).unwrap().as_str().split(',');
        labels.map(str::trim)
    });
    faults
        .extend(grouped.filter(|label| !labels.contains(label)).map(|label| format!("nothing has a label `{label}`")));
    faults
}

#[test]
fn what_is_asked_of_metrics_is_checked() {
    let check = |expression: &str, expected: &[&str]| {
        assert_eq!(faults(expression, &mut BTreeSet::new()), expected, "{expression}");
    };
    check("sum(ronde_operator_active) != 1", &[]);
    check("sum by (reason) (ronde_scheduler_gangs_waiting{namespace=~\"a\", reason!=\"b\"})", &[]);
    check("rate(ronde_scheduler_cycle_seconds_bucket{part=\"decide\"}[5m])", &[]);
    check("ronde_operator_passive", &["`ronde_operator_passive` is no metric"]);
    check("ronde_scheduler_cycle_seconds", &["`ronde_scheduler_cycle_seconds` is no metric"]);
    check("ronde_operator_active_count", &["`ronde_operator_active_count` is no metric"]);
    check("ronde_job_restarts_total{queue=\"a\"}", &["`ronde_job_restarts_total` has no label `queue`"]);
    check("sum by (le, queue) (ronde_job_restarts_total)", &["nothing has a label `queue`"]);
}

#[test]
fn dashboards_show_every_metric_and_no_other() {
    let mut asked = BTreeSet::new();
    let mut uids = BTreeSet::new();
    for entry in fs_err::read_dir(root().join("charts/ronde/files/dashboards")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display();
        let dashboard: Value = serde_json::from_str(&fs_err::read_to_string(&path).unwrap()).unwrap();
        assert!(uids.insert(dashboard["uid"].as_str().unwrap().to_owned()), "{name}: another one has this uid");
        let panels = dashboard["panels"].as_array().unwrap();
        let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len(), "{name}: ids of panels");
        for panel in panels {
            let title = panel["title"].as_str().unwrap();
            assert!(panel["description"].as_str().unwrap().ends_with('.'), "{name}: {title}");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name}: {title}");
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                assert_eq!(faults(expression, &mut asked), Vec::<String>::new(), "{name}: {title}: {expression}");
            }
        }
    }
    let missing: Vec<&str> = metrics().map(|metric| metric.name).filter(|name| !asked.contains(name)).collect();
    assert!(missing.is_empty(), "no dashboard shows {missing:?}");
}

/// An alert: its name, what it looks for, and for how long.
type Alert = (String, String, String);

fn alerts_of_the_chart() -> Vec<Alert> {
    let text = read("charts/ronde/files/alerts.yaml");
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let rules = file["groups"][0]["rules"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    rules.iter().map(|rule| (text(&rule["alert"]), text(&rule["expr"]), text(&rule["for"]))).collect()
}

fn alerts_of_the_page() -> Vec<Alert> {
    let page = read("docs/operations.md");
    let table = page.split("### What to watch\n").nth(1).unwrap();
    let rows = table.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| -> Vec<String> {
        // A bar within a cell has a backslash in front.
        let row = row.replace("\\|", "\0");
        row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').replace('\0', "|")).collect()
    };
    let alert = |row: &str| match &cells(row)[..] {
        [_, _, _, meaning] if meaning.starts_with(ELSEWHERE) => None,
        [name, expression, lasts, _] => Some((name.clone(), expression.clone(), lasts.clone())),
        other => panic!("{other:?}"),
    };
    rows.filter_map(alert).collect()
}

#[test]
fn the_alerts_of_the_chart_are_those_of_the_page() {
    let alerts = alerts_of_the_chart();
    assert_eq!(alerts, alerts_of_the_page());
    for (name, expression, _) in alerts {
        assert_eq!(faults(&expression, &mut BTreeSet::new()), Vec::<String>::new(), "{name}");
    }
}
