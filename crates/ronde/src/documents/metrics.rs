//! The page of metrics.

use ronde_text::metrics::Metric;

use super::{cell, check_page};

#[test]
fn the_page_of_metrics_is_current() {
    let page = format!(
        "# Metrics\n\nWhat `ronde operator --listen` serves under `/metrics`, and `ronde up` under `kubectl get --raw \
         /metrics`, in the text format of Prometheus. Histograms have `_bucket`, `_sum` and `_count`. What to watch, and \
         what to do when, is under [operations](../operations.md#what-to-watch).\n\n## Operator\n\n{}\n## Controllers and \
         scheduler\n\nOn a cluster and on one machine.\n\n{}\n## API server of one machine\n\n{}",
        table(ronde_control::metrics::OPERATOR.into_iter()),
        table(ronde_control::metrics::of_controllers()),
        table(ronde_apiserver::metrics::ALL.into_iter()),
    );
    check_page("metrics.md", &page);
}

fn table(metrics: impl Iterator<Item = &'static Metric>) -> String {
    let row = |metric: &Metric| {
        assert!(metric.name.starts_with("ronde_") && metric.help.ends_with('.'), "{}", metric.name);
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        format!("| `{}` | {} | {labels} | {} |\n", metric.name, metric.kind.as_str(), cell(metric.help))
    };
    format!("| metric | type | labels | meaning |\n|---|---|---|---|\n{}", metrics.map(row).collect::<String>())
}
