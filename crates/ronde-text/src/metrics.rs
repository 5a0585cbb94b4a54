//! The text format of Prometheus: how metrics are described, and how their values are told.
//!
//! Who counts keeps the values; the API server and the controllers do it each in their way.

use std::fmt::{Display, Write as _};

/// The media type of a page of metrics.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One metric, as it is described.
#[derive(Debug)]
pub struct Metric {
    /// `ronde_<noun>_<unit>`.
    pub name: &'static str,
    pub kind: MetricKind,
    /// One sentence.
    pub help: &'static str,
    pub labels: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricKind {
    Counter,
    Gauge,
    /// With the upper bounds of its buckets, ascending; the last, without a bound, is understood.
    Histogram(&'static [f64]),
}

impl MetricKind {
    /// Returns the word of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

impl Metric {
    pub const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: MetricKind::Counter, help, labels }
    }

    pub const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: MetricKind::Gauge, help, labels }
    }

    pub const fn histogram(
        name: &'static str,
        labels: &'static [&'static str],
        buckets: &'static [f64],
        help: &'static str,
    ) -> Self {
        Self { name, kind: MetricKind::Histogram(buckets), help, labels }
    }

    /// Writes what comes before the values.
    pub fn write_head(&self, page: &mut String) {
        let (name, kind) = (self.name, self.kind.as_str());
        let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {kind}", self.help);
    }

    /// Writes one value, with the values of the labels in their order.
    pub fn write_value(&self, page: &mut String, labels: &[impl Display], value: impl Display) {
        self.write_line(page, "", labels, None, value);
    }

    /// Writes the values of a histogram: how many were in each bucket, the last without a bound, and the sum of all.
    pub fn write_histogram(&self, page: &mut String, labels: &[impl Display], counts: &[u64], sum: f64) {
        let MetricKind::Histogram(bounds) = self.kind else { return };
        let bounds = bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        let mut total = 0;
        for (bound, count) in bounds.zip(counts) {
            total += count;
            self.write_line(page, "_bucket", labels, Some(&bound), total);
        }
        self.write_line(page, "_sum", labels, None, sum);
        self.write_line(page, "_count", labels, None, total);
    }

    fn write_line(
        &self,
        page: &mut String,
        suffix: &str,
        labels: &[impl Display],
        bound: Option<&str>,
        value: impl Display,
    ) {
        let own = self.labels.iter().zip(labels).map(|(name, value)| format!("{name}=\"{value}\""));
        let all: Vec<String> = own.chain(bound.map(|bound| format!("le=\"{bound}\""))).collect();
        let all = if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) };
        let _ = writeln!(page, "{}{suffix}{all} {value}", self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_in_the_format_of_prometheus() {
        let requests = Metric::counter("requests_total", &["verb", "code"], "Requests.");
        let waits = Metric::histogram("wait_seconds", &["queue"], &[0.5, 10.0], "How long it waits.");
        let mut page = String::new();
        requests.write_head(&mut page);
        requests.write_value(&mut page, &["get", "200"], 3);
        waits.write_head(&mut page);
        waits.write_histogram(&mut page, &["a"], &[1, 2, 1], 42.5);
        let expected = "# HELP requests_total Requests.\n# TYPE requests_total counter\n\
            requests_total{verb=\"get\",code=\"200\"} 3\n\
            # HELP wait_seconds How long it waits.\n# TYPE wait_seconds histogram\n\
            wait_seconds_bucket{queue=\"a\",le=\"0.5\"} 1\nwait_seconds_bucket{queue=\"a\",le=\"10\"} 3\n\
            wait_seconds_bucket{queue=\"a\",le=\"+Inf\"} 4\nwait_seconds_sum{queue=\"a\"} 42.5\n\
            wait_seconds_count{queue=\"a\"} 4\n";
        assert_eq!(page, expected);
    }
}
