//! Notices operations that wait too long for some ranks, and says which and for whom.
//!
//! An operation waits for ranks that have not asked for it: [`Watch::look`], between rounds. Or all have asked, and one
//! of them stops in the middle: then the waits themselves ask the [`Midway`].

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use super::{config::Stall, driver::Entry, group::lock};
use crate::{
    clock,
    error::{Error, Result},
    metrics::Metrics,
    negotiate::{Negotiator, Response, Stalled, request::Request},
    types::Rank,
    wait_context::Overseer,
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
    me: Rank,
}

/// What is to be said about a stall, and by whom: the others see the same, and once is enough.
struct Report {
    text: String,
    speaker: Option<Rank>,
}

impl Rules {
    /// Warns or fails if something has waited for too long.
    fn apply(&self, age: Duration, warned: &mut Option<Instant>, report: impl FnOnce() -> Report) -> Result<()> {
        let now = clock::now();
        let is_over = |limit: Option<Duration>| limit.is_some_and(|limit| age >= limit);
        let was_warned =
            warned.is_some_and(|warned| Some(now.saturating_duration_since(warned)) < self.limits.warn_after);
        let fails = is_over(self.limits.fail_after);
        if !fails && (!is_over(self.limits.warn_after) || was_warned) {
            return Ok(());
        }
        *warned = Some(now);
        let Report { text, speaker } = report();
        if speaker.is_none_or(|speaker| speaker == self.me) {
            tracing::warn!("{text}");
        }
        self.metrics.stalled(&text);
        if fails { Err(Error::Stalled(text)) } else { Ok(()) }
    }
}

impl Watch {
    pub(super) fn new(limits: Stall, metrics: Arc<Metrics>, me: Rank) -> Self {
        let rules = Rules { limits, metrics, me };
        let midway = Arc::new(Midway { rules: rules.clone(), batch: Mutex::default() });
        Self { rules, warned: None, midway }
    }

    pub(super) fn midway(&self) -> Arc<Midway> {
        Arc::clone(&self.midway)
    }

    /// Says what the waits from now on are for.
    pub(super) fn begins(&self, responses: &[Response]) {
        let mut batch = lock(&self.midway.batch);
        batch.members = responses.first().map(|response| Arc::clone(&response.members));
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
            let stalled = negotiator.stalled();
            let speaker = speaker(negotiator.ranks(), &stalled, silent);
            Report { text: report(&names, &stalled, silent, age), speaker }
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
    members: Option<Arc<[Rank]>>,
    warned: Option<Instant>,
}

impl Overseer for Midway {
    fn look(&self, still_for: Duration, awaited: &[Rank]) -> Result<()> {
        let mut batch = lock(&self.batch);
        let BatchInWork { requests, members, warned } = &mut *batch;
        self.rules.apply(still_for, warned, || {
            let names: Vec<&str> = requests.iter().map(|request| &*request.name).collect();
            let text = report(&names, &BTreeMap::new(), awaited, still_for);
            Report { text, speaker: members.as_deref().and_then(|all| speaker(all, &BTreeMap::new(), awaited)) }
        })
    }
}

/// The first of those who wait: while some are silent everybody else does, else those who have asked for something.
fn speaker(members: &[Rank], stalled: &BTreeMap<&str, Stalled>, silent: &[Rank]) -> Option<Rank> {
    let waits = |rank: &&Rank| match silent {
        [] => stalled.values().any(|it| it.asked.contains(rank)),
        silent => !silent.contains(rank),
    };
    members.iter().filter(waits).min().copied()
}

/// Ranks that wait for each other, each in an operation that the other has not asked for; nothing if there are none.
fn crossed(stalled: &BTreeMap<&str, Stalled>) -> Option<String> {
    let is_awaited = |rank: &Rank| stalled.values().any(|it| it.missing.contains(rank));
    let first = |rank: Rank| stalled.iter().find(|(_, it)| it.asked.contains(&rank)).map(|(name, _)| (rank, *name));
    let ranks: BTreeSet<Rank> =
        stalled.values().flat_map(|it| &it.asked).filter(|it| is_awaited(it)).copied().collect();
    let all: Vec<(Rank, &str)> = ranks.into_iter().filter_map(first).collect();
    let [(rank, name), rest @ ..] = all.as_slice() else { return None };
    let more = rest.iter().take(NAMES_MAX - 1).map(|(rank, name)| format!(", rank {rank} in `{name}`"));
    let end = if rest.len() < NAMES_MAX { "" } else { ", ..." };
    (!rest.is_empty()).then(|| format!("rank {rank} is waiting in `{name}`{}{end}", more.collect::<String>()))
}

/// What waits for whom, in words. Pure.
fn report(names: &[&str], stalled: &BTreeMap<&str, Stalled>, silent: &[Rank], age: Duration) -> String {
    let mut missing: BTreeMap<Rank, Vec<&str>> = BTreeMap::new();
    for (name, Stalled { missing: ranks, .. }) in stalled {
        ranks.iter().for_each(|rank| missing.entry(*rank).or_default().push(name));
    }
    let unheard = names.iter().filter(|name| !stalled.contains_key(**name));
    for name in unheard {
        silent.iter().for_each(|rank| missing.entry(*rank).or_default().push(name));
    }
    let seconds = age.as_secs();
    let mut text = crossed(stalled).map_or_else(
        || format!("operations have been waiting for missing ranks for {seconds} s"),
        |who| format!("ranks have been waiting for each other in different operations for {seconds} s: {who}"),
    );
    text.push_str("\nMissing ranks:");
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

    use super::{report, speaker};
    use crate::{negotiate::Stalled, types::Rank};

    fn stalled<'a>(all: &[(&'a str, &[usize], &[usize])]) -> BTreeMap<&'a str, Stalled> {
        let ranks = |numbers: &[usize]| numbers.iter().copied().map(Rank).collect();
        all.iter()
            .map(|(name, asked, missing)| (*name, Stalled { asked: ranks(asked), missing: ranks(missing) }))
            .collect()
    }

    #[test]
    fn ranks_that_wait_for_each_other_are_told_in_what() {
        let crossed = stalled(&[("x", &[0, 2], &[1]), ("y", &[1], &[0, 2])]);
        let text = report(&["x"], &crossed, &[], Duration::from_secs(60));
        let expected = "ranks have been waiting for each other in different operations for 60 s: \
                        rank 0 is waiting in `x`, rank 1 in `y`, rank 2 in `x`\nMissing ranks:\n0: [y]\n1: [x]\n2: [y]";
        assert_eq!(text, expected);
    }

    #[test]
    fn one_of_those_who_wait_speaks() {
        let all = [Rank(0), Rank(1), Rank(2)];
        assert_eq!(speaker(&all, &stalled(&[]), &[Rank(0)]), Some(Rank(1)), "the first has not said a word");
        assert_eq!(speaker(&all, &stalled(&[("x", &[2], &[0, 1])]), &[]), Some(Rank(2)), "only the last has asked");
        assert_eq!(speaker(&all, &stalled(&[("x", &[1], &[0]), ("y", &[0], &[1])]), &[]), Some(Rank(0)));
    }

    #[test]
    fn a_report_names_ranks_and_tensors() {
        let stalled = stalled(&[("a", &[0, 2], &[1, 3]), ("b", &[0, 1, 2], &[3])]);
        let text = report(&["a", "b", "c"], &stalled, &[Rank(2)], Duration::from_secs(61));
        let expected =
            "operations have been waiting for missing ranks for 61 s\nMissing ranks:\n1: [a]\n2: [c]\n3: [a, b]";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_long_list_is_cut() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let text = report(&names, &BTreeMap::new(), &[Rank(0)], Duration::from_secs(1));
        assert!(text.ends_with("0: [a, b, c, d, e, f ...]"), "{text}");
    }
}
