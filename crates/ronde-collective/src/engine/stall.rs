//! Notices operations that wait too long for some ranks, and says which and for whom.
//!
//! An operation waits for ranks that have not asked for it: [`Watch::look`], between rounds. Or all have asked, and one
//! of them stops in the middle: then the waits themselves ask the [`Midway`].

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use super::{config::Stall, core::Entry, group::lock};
use crate::{
    callers::Overseer,
    clock,
    error::{Error, Result},
    metrics::Metrics,
    negotiate::{Negotiator, Response, request::Request},
    types::Rank,
};

/// Names that are shown for each rank.
const NAMES_MAX: usize = 6;

/// Looks at what waits, now and then.
#[derive(Debug)]
pub(super) struct Watch {
    rules: Rules,
    warned: Option<Instant>,
    midway: Arc<Midway>,
}

#[derive(Debug, Clone)]
struct Rules {
    limits: Stall,
    metrics: Arc<Metrics>,
}

impl Rules {
    /// Warns or fails if something has waited for too long.
    fn apply(&self, age: Duration, warned: &mut Option<Instant>, report: impl FnOnce() -> String) -> Result<()> {
        let now = clock::now();
        let is_over = |limit: Option<Duration>| limit.is_some_and(|limit| age >= limit);
        let was_warned =
            warned.is_some_and(|warned| Some(now.saturating_duration_since(warned)) < self.limits.warn_after);
        let fails = is_over(self.limits.fail_after);
        if !fails && (!is_over(self.limits.warn_after) || was_warned) {
            return Ok(());
        }
        *warned = Some(now);
        let text = report();
        tracing::warn!("{text}");
        self.metrics.stalled(&text);
        if fails { Err(Error::Stalled(text)) } else { Ok(()) }
    }
}

impl Watch {
    pub(super) fn new(limits: Stall, metrics: Arc<Metrics>) -> Self {
        let rules = Rules { limits, metrics };
        let midway = Arc::new(Midway { rules: rules.clone(), batch: Mutex::default() });
        Self { rules, warned: None, midway }
    }

    pub(super) fn midway(&self) -> Arc<Midway> {
        Arc::clone(&self.midway)
    }

    /// Says what the waits from now on are for.
    pub(super) fn begins(&self, responses: &[Response]) {
        let mut batch = lock(&self.midway.batch);
        batch.requests.clear();
        batch.requests.extend(responses.iter().filter_map(|it| it.agreed.iter().flatten().next().map(Arc::clone)));
    }

    /// Warns or fails if something has waited too long; `silent` are ranks that did not speak in this round.
    pub(super) fn look(
        &mut self,
        entries: &HashMap<Arc<str>, Entry>,
        negotiator: &Negotiator,
        silent: &[Rank],
    ) -> Result<()> {
        let Some(oldest) = entries.values().map(|entry| entry.since).min() else { return Ok(()) };
        let age = clock::now().saturating_duration_since(oldest);
        self.rules.apply(age, &mut self.warned, || {
            let names: Vec<&str> = entries.keys().map(AsRef::as_ref).collect();
            report(&names, &negotiator.stalled(), silent, age)
        })
    }
}

/// Judges waits in the middle of a batch.
#[derive(Debug)]
pub(super) struct Midway {
    rules: Rules,
    /// Owned by the thread that drives.
    batch: Mutex<BatchInWork>,
}

#[derive(Debug, Default)]
struct BatchInWork {
    requests: Vec<Arc<Request>>,
    warned: Option<Instant>,
}

impl Overseer for Midway {
    fn look(&self, still_for: Duration, awaited: &[Rank]) -> Result<()> {
        let mut batch = lock(&self.batch);
        let BatchInWork { requests, warned } = &mut *batch;
        self.rules.apply(still_for, warned, || {
            let names: Vec<&str> = requests.iter().map(|request| &*request.name).collect();
            report(&names, &BTreeMap::new(), awaited, still_for)
        })
    }
}

/// What waits for whom, in words. Pure.
fn report(names: &[&str], stalled: &BTreeMap<&str, Vec<Rank>>, silent: &[Rank], age: Duration) -> String {
    let mut missing: BTreeMap<Rank, Vec<&str>> = BTreeMap::new();
    for (name, ranks) in stalled {
        ranks.iter().for_each(|rank| missing.entry(*rank).or_default().push(name));
    }
    let unheard = names.iter().filter(|name| !stalled.contains_key(**name));
    for name in unheard {
        silent.iter().for_each(|rank| missing.entry(*rank).or_default().push(name));
    }
    let mut text = format!("operations have waited for some ranks for {} s\nMissing ranks:", age.as_secs());
    for (rank, mut names) in missing {
        names.sort_unstable();
        names.dedup();
        let more = if names.len() > NAMES_MAX { " ..." } else { "" };
        text.push_str(&format!("\n{rank}: [{}{more}]", names[..names.len().min(NAMES_MAX)].join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::report;
    use crate::types::Rank;

    #[test]
    fn a_report_names_ranks_and_tensors() {
        let stalled = BTreeMap::from([("a", vec![Rank(1), Rank(3)]), ("b", vec![Rank(3)])]);
        let text = report(&["a", "b", "c"], &stalled, &[Rank(2)], Duration::from_secs(61));
        let expected = "operations have waited for some ranks for 61 s\nMissing ranks:\n1: [a]\n2: [c]\n3: [a, b]";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_long_list_is_cut() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let text = report(&names, &BTreeMap::new(), &[Rank(0)], Duration::from_secs(1));
        assert!(text.ends_with("0: [a, b, c, d, e, f ...]"), "{text}");
    }
}
