//! Counts and measures, to be told in the format of Prometheus.
//!
//! A series begins when it is first counted. The values of labels are words of the program, never names of objects, so that
//! their number is known when the program is built.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use ronde_text::metrics::{Metric, MetricKind};

/// From one request to a minute, at which somebody is no longer waiting but away.
pub const SECONDS: &[f64] = &[0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0];

pub static REQUESTS: Metric = Metric::counter(
    "ronde_client_requests_total",
    &["verb", "code"],
    "Requests to the API server, by verb and code; the code is `none` if there was no answer and `fenced` if the request was not sent because the lease had run out.",
);
pub static REQUEST_SECONDS: Metric = Metric::histogram(
    "ronde_client_request_seconds",
    &["verb"],
    SECONDS,
    "How long the API server took to begin its answers, by verb.",
);
pub static WATCH_INTERRUPTIONS: Metric = Metric::counter(
    "ronde_watch_interruptions_total",
    &["kind"],
    "Watches and lists that ended with an error and were begun again, by kind.",
);
pub static CACHED_OBJECTS: Metric =
    Metric::gauge("ronde_cache_objects", &["kind"], "Objects in memory as of the last list, by kind.");
pub static QUEUED_KEYS: Metric = Metric::gauge(
    "ronde_controller_queue_keys",
    &["controller"],
    "Objects that wait for a look of their controller, by controller.",
);
pub static RECONCILES: Metric = Metric::counter(
    "ronde_controller_reconciles_total",
    &["controller", "outcome"],
    "Looks of controllers at an object, by controller and outcome: `done`, `conflict` (looked at again at once), `failed` or `panicked`.",
);
pub static RECONCILE_SECONDS: Metric = Metric::histogram(
    "ronde_controller_reconcile_seconds",
    &["controller"],
    SECONDS,
    "How long a look at an object took, by controller.",
);

/// What every process with controllers tells.
pub static ALL: [&Metric; 7] =
    [&REQUESTS, &REQUEST_SECONDS, &WATCH_INTERRUPTIONS, &CACHED_OBJECTS, &QUEUED_KEYS, &RECONCILES, &RECONCILE_SECONDS];

/// The value of a label: one of a number of words that is known when the program is built.
pub type Label = Cow<'static, str>;

/// Everything that was counted.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Mutex<BTreeMap<SeriesKey, Series>>>);

/// The name of a metric, and the values of its labels.
type SeriesKey = (&'static str, Vec<Label>);

#[derive(Debug, Clone, PartialEq)]
enum Series {
    Number(u64),
    Histogram { counts: Vec<u64>, sum: f64 },
}

impl Metrics {
    /// Counts one more.
    pub fn count<const N: usize>(&self, metric: &'static Metric, labels: [impl Into<Label>; N]) {
        if let Series::Number(number) = self.0.lock().entry(key(metric, labels)).or_insert(Series::Number(0)) {
            *number += 1;
        }
    }

    /// Sets a gauge.
    pub fn set<const N: usize>(&self, metric: &'static Metric, labels: [impl Into<Label>; N], value: usize) {
        self.0.lock().insert(key(metric, labels), Series::Number(value as u64));
    }

    /// Forgets what these gauges tell, because nobody sets them any more; what was counted and measured stays.
    pub fn forget_gauges(&self, metrics: impl IntoIterator<Item = &'static Metric>) {
        let gauges = metrics.into_iter().filter(|metric| metric.kind == MetricKind::Gauge);
        let names: Vec<&str> = gauges.map(|metric| metric.name).collect();
        self.0.lock().retain(|(name, _), _| !names.contains(name));
    }

    /// Puts a time into a histogram.
    pub fn observe<const N: usize>(&self, metric: &'static Metric, labels: [impl Into<Label>; N], took: Duration) {
        let MetricKind::Histogram(bounds) = metric.kind else { return };
        let seconds = took.as_secs_f64();
        let bucket = bounds.partition_point(|bound| *bound < seconds);
        let mut all = self.0.lock();
        let empty = || Series::Histogram { counts: vec![0; bounds.len() + 1], sum: 0.0 };
        if let Series::Histogram { counts, sum } = all.entry(key(metric, labels)).or_insert_with(empty) {
            counts[bucket] += 1;
            *sum += seconds;
        }
    }

    /// Writes a page of these metrics, also of those of which nothing was counted yet.
    pub fn render(&self, metrics: impl IntoIterator<Item = &'static Metric>) -> String {
        let all = self.0.lock().clone();
        let mut page = String::new();
        for metric in metrics {
            metric.write_head(&mut page);
            for ((_, labels), series) in
                all.range((metric.name, Vec::new())..).take_while(|(key, _)| key.0 == metric.name)
            {
                match series {
                    Series::Number(number) => metric.write_value(&mut page, labels, number),
                    Series::Histogram { counts, sum } => metric.write_histogram(&mut page, labels, counts, *sum),
                }
            }
        }
        page
    }
}

fn key<const N: usize>(metric: &'static Metric, labels: [impl Into<Label>; N]) -> SeriesKey {
    debug_assert_eq!(metric.labels.len(), N, "{} has other labels", metric.name);
    (metric.name, labels.map(Into::into).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told() {
        let metrics = Metrics::default();
        metrics.count(&REQUESTS, ["get", "200"]);
        metrics.count(&REQUESTS, ["get", "200"]);
        metrics.set(&QUEUED_KEYS, ["job"], 7);
        metrics.set(&QUEUED_KEYS, ["job"], 3);
        metrics.observe(&REQUEST_SECONDS, ["list"], Duration::from_millis(3));
        metrics.observe(&REQUEST_SECONDS, ["list"], Duration::from_secs(100));
        let page = metrics.render(ALL);
        for line in [
            "# TYPE ronde_watch_interruptions_total counter",
            "ronde_client_requests_total{verb=\"get\",code=\"200\"} 2",
            "ronde_controller_queue_keys{controller=\"job\"} 3",
            "ronde_client_request_seconds_bucket{verb=\"list\",le=\"0.001\"} 0",
            "ronde_client_request_seconds_bucket{verb=\"list\",le=\"0.003\"} 1",
            "ronde_client_request_seconds_bucket{verb=\"list\",le=\"60\"} 1",
            "ronde_client_request_seconds_bucket{verb=\"list\",le=\"+Inf\"} 2",
            "ronde_client_request_seconds_sum{verb=\"list\"} 100.003",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is missing:\n{page}");
        }
    }

    #[test]
    fn gauges_of_the_past_are_forgotten() {
        let metrics = Metrics::default();
        metrics.count(&REQUESTS, ["get", "200"]);
        metrics.set(&QUEUED_KEYS, ["job"], 7);
        metrics.forget_gauges(ALL);
        let page = metrics.render(ALL);
        assert!(page.contains("ronde_client_requests_total{verb=\"get\",code=\"200\"} 1"), "{page}");
        assert!(!page.contains("ronde_controller_queue_keys{"), "{page}");
    }
}
