//! What `/metrics` says, in the text format of Prometheus. The list is in docs/reference/metrics.md.
//!
//! Requests are counted as they are answered, in a table of atomics; everything else is looked up when it is asked for.
//! What runs beside the server in the same process may have something to add.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use http::{Method, StatusCode};
use ronde_text::metrics::Metric;

use crate::store::{Range, Store};

static OBJECTS: Metric =
    Metric::gauge("ronde_apiserver_objects", &["resource"], "The number of stored objects, by resource.");
static REVISION: Metric = Metric::counter("ronde_apiserver_revision", &[], "The newest revision of the store.");
static REQUESTS: Metric = Metric::counter(
    "ronde_apiserver_requests_total",
    &["method", "code"],
    "Answered requests for resources, by method and code; a watch counts when it begins.",
);
static WATCHES: Metric = Metric::gauge("ronde_apiserver_watches", &[], "The number of open watches.");
static TRANSACTIONS: Metric = Metric::counter(
    "ronde_store_transactions_total",
    &[],
    "Transactions that were synced to the disk; writes that come together share one.",
);
static BYTES: Metric = Metric::gauge("ronde_store_bytes", &[], "The size of the store's file.");
static WRITABLE: Metric = Metric::gauge("ronde_store_writable", &[], "1 if the last write reached the disk, 0 if not.");
static PODS: Metric = Metric::gauge("ronde_pods", &["phase"], "The number of pods, by phase.");

/// Every metric of the server; those of one name are told together.
pub static ALL: [&Metric; 8] = [&OBJECTS, &REVISION, &REQUESTS, &WATCHES, &TRANSACTIONS, &BYTES, &WRITABLE, &PODS];

/// Methods that are counted apart; the rest is the last.
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "other"];
const CODES: usize = 600;

/// Counts answers.
pub struct Requests(Box<[AtomicU64]>);

impl Default for Requests {
    fn default() -> Self {
        Self((0..METHODS.len() * CODES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Requests {
    pub fn count(&self, method: &Method, code: StatusCode) {
        let other = METHODS.len() - 1;
        let row = METHODS.iter().position(|known| *known == method.as_str()).unwrap_or(other);
        if let Some(cell) = self.0.get(row * CODES + usize::from(code.as_u16())) {
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn cells(&self) -> impl Iterator<Item = (&'static str, usize, u64)> {
        let counted =
            self.0.iter().map(|cell| cell.load(Ordering::Relaxed)).enumerate().filter(|(_, count)| *count > 0);
        counted.map(|(index, count)| (METHODS[index / CODES], index % CODES, count))
    }
}

/// Writes the page.
pub async fn render(store: &Store, requests: &Requests) -> String {
    let is_writable = store.is_writable().await;
    let mut page = String::new();
    for metric in ALL {
        metric.write_head(&mut page);
        for (labels, value) in values(metric, store, requests, is_writable) {
            metric.write_value(&mut page, &labels, value);
        }
    }
    page
}

/// The values of a metric, each with the values of its labels.
fn values(metric: &Metric, store: &Store, requests: &Requests, is_writable: bool) -> Vec<(Vec<String>, u64)> {
    let one = |value: u64| vec![(Vec::new(), value)];
    match metric.name {
        name if name == OBJECTS.name => {
            let counts = store.counts().into_iter();
            counts.map(|(resource, count)| (vec![resource.to_string()], count as u64)).collect()
        }
        name if name == REVISION.name => one(store.revision()),
        name if name == REQUESTS.name => {
            let cells = requests.cells();
            cells.map(|(method, code, count)| (vec![method.to_owned(), code.to_string()], count)).collect()
        }
        name if name == WATCHES.name => one(store.watches() as u64),
        name if name == TRANSACTIONS.name => one(store.transactions()),
        name if name == BYTES.name => store.file_bytes().map(one).unwrap_or_default(),
        name if name == WRITABLE.name => one(u64::from(is_writable)),
        _ => phases(store).into_iter().map(|(phase, count)| (vec![phase], count)).collect(),
    }
}

/// Counts pods by phase; every phase is there, so that a graph has no gaps.
fn phases(store: &Store) -> BTreeMap<String, u64> {
    let known = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];
    let mut phases: BTreeMap<String, u64> = known.iter().map(|phase| ((*phase).to_owned(), 0)).collect();
    let Ok(page) = store.list("pods", &Range::default()) else { return phases };
    for pod in page.objects {
        let value = pod.value();
        let phase = value["status"]["phase"].as_str().filter(|phase| known.contains(phase)).unwrap_or("Unknown");
        *phases.entry(phase.to_owned()).or_default() += 1;
    }
    phases
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Change, Draft, Expect, Key};

    #[tokio::test]
    async fn the_page_tells_what_has_happened() -> anyhow::Result<()> {
        let (store, requests) = (Store::in_memory()?, Requests::default());
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "status": {"phase": "Running"}});
        let key = Key::new(&"pods".into(), "n", "a");
        store.commit(Change { key, expect: Expect::Absent, draft: Draft::new(&pod), removes: false }).await?;
        let watching = store.changes(&"pods".into());
        requests.count(&Method::GET, StatusCode::OK);
        requests.count(&Method::GET, StatusCode::OK);
        requests.count(&Method::TRACE, StatusCode::METHOD_NOT_ALLOWED);
        let page = render(&store, &requests).await;
        for line in [
            "ronde_apiserver_objects{resource=\"pods\"} 1",
            "ronde_apiserver_requests_total{method=\"GET\",code=\"200\"} 2",
            "ronde_apiserver_requests_total{method=\"other\",code=\"405\"} 1",
            "ronde_apiserver_watches 1",
            "ronde_store_transactions_total 1",
            "ronde_store_writable 1",
            "ronde_pods{phase=\"Running\"} 1",
            "ronde_pods{phase=\"Failed\"} 0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is missing:\n{page}");
        }
        drop(watching);
        assert!(render(&store, &requests).await.contains("ronde_apiserver_watches 0"));
        Ok(())
    }
}
