//! The work of one controller: which keys to look at, when, and which are being looked at.
//!
//! Owned by the loop of the controller (see `runner`); pure, time is an argument. A key is in it once, however often it
//! is marked; it is never handed out twice at the same time; a key that fails comes back later and later.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::watch::Key;

/// The wait after the first failure: a conflict is over as soon as the watch has caught up.
const BACKOFF_FIRST: Duration = Duration::from_millis(5);
/// The longest wait: whatever was in the way, within a minute of its end the work goes on.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// The longest wait of a key that was marked while it failed: the change may have been the remedy, but may also have
/// been its own doing.
const BACKOFF_MARKED_MAX: Duration = Duration::from_secs(1);
/// Looking early is harmless; adding years to a clock is not.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Twice 5 ms fourteen times is 82 s, more than the longest wait.
const DOUBLINGS_MAX: u32 = 14;

/// Returns how long to wait after this many failures in a row.
pub fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX);
    BACKOFF_FIRST.saturating_mul(1 << doublings).min(BACKOFF_MAX)
}

/// How a look at a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookOutcome {
    /// Done; look again after the given time, or when something changes.
    Done(Option<Duration>),
    Failed,
}

/// The queue of one controller.
#[derive(Debug, Default)]
pub struct Queue {
    ready: VecDeque<Key>,
    waiting: BTreeMap<Key, Instant>,
    due: BTreeSet<(Instant, Key)>,
    /// With whether the key was marked since.
    running: BTreeMap<Key, bool>,
    queued: BTreeSet<Key>,
    failures: BTreeMap<Key, u32>,
}

impl Queue {
    /// Marks a key: it is to be looked at as soon as possible.
    pub fn mark(&mut self, key: Key) {
        if let Some(again) = self.running.get_mut(&key) {
            *again = true;
        } else if self.queued.insert(key.clone()) {
            self.unschedule(&key);
            self.ready.push_back(key);
        }
    }

    /// Hands out the next key to look at, in the order of marks.
    pub fn next(&mut self, now: Instant) -> Option<Key> {
        while let Some((at, key)) = self.due.first().cloned()
            && at <= now
        {
            self.mark(key);
        }
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.running.insert(key.clone(), false);
        Some(key)
    }

    /// Takes back a key that was handed out.
    pub fn done(&mut self, key: Key, outcome: LookOutcome, now: Instant) {
        let again = self.running.remove(&key).unwrap_or_default();
        let LookOutcome::Done(wait) = outcome else {
            let failures = self.failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            let wait_max = if again { BACKOFF_MARKED_MAX } else { BACKOFF_MAX };
            let wait = backoff(*failures).min(wait_max);
            return self.schedule(key, now + wait);
        };
        self.failures.remove(&key);
        if again {
            self.mark(key);
        } else if let Some(wait) = wait {
            self.schedule(key, now + wait.min(WAIT_MAX));
        }
    }

    /// Returns how many keys wait to be handed out.
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Returns when the next key becomes due by itself.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    fn schedule(&mut self, key: Key, at: Instant) {
        self.unschedule(&key);
        self.waiting.insert(key.clone(), at);
        self.due.insert((at, key));
    }

    fn unschedule(&mut self, key: &Key) {
        if let Some(at) = self.waiting.remove(key) {
            self.due.remove(&(at, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("", name)
    }

    /// Plays a script: `+a` marks, `?` takes, `a=` ends well, `a=5` ends well for 5 s, `a!` fails, `10` lets seconds pass.
    fn play(script: &str) -> String {
        let mut queue = Queue::default();
        let mut now = Instant::now();
        let mut taken = Vec::new();
        for word in script.split_whitespace() {
            if let Some(name) = word.strip_prefix('+') {
                queue.mark(key(name));
            } else if word == "?" {
                taken.push(queue.next(now).map_or("-".to_owned(), |key| key.name));
            } else if let Some(name) = word.strip_suffix('!') {
                queue.done(key(name), LookOutcome::Failed, now);
            } else if let Some((name, wait)) = word.split_once('=') {
                let wait = wait.parse().ok().map(Duration::from_secs);
                queue.done(key(name), LookOutcome::Done(wait), now);
            } else {
                now += Duration::from_secs_f64(word.parse().expect("seconds"));
            }
        }
        taken.join(" ")
    }

    #[track_caller]
    fn check(what: &str, script: &str, expected: &str) {
        assert_eq!(play(script), expected, "{what}");
    }

    #[test]
    fn keys_come_once_and_in_order() {
        check("nothing to do", "?", "-");
        check("the order of marks", "+b +a ? ?", "b a");
        check("a key that is marked twice comes once", "+a +a ? ?", "a -");
        check("a key that is being looked at does not come", "+a ? +a ?", "a -");
        check("a mark during a look leads to one more look", "+a ? +a +a a= ? a= ?", "a a -");
        check("a look that ends well is forgotten", "+a ? a= 100 ?", "a -");
    }

    #[test]
    fn keys_come_back_in_time() {
        check("not before its time", "+a ? a=5 4 ?", "a -");
        check("at its time", "+a ? a=5 5 ?", "a a");
        check("a mark is not made to wait", "+a ? a=5 +a ? a= 5 ?", "a a -");
        check("the newest answer counts", "+a ? a=5 +a ? a=60 30 ? 30 ?", "a a - a");
        check("a failure comes back soon", "+a ? a! ? 0.005 ?", "a - a");
        check("a second one later", "+a ? a! 0.005 ? a! 0.005 ? 0.005 ?", "a a - a");
        check("a success makes good", "+a ? a! 0.005 ? a= +a ? a! 0.005 ?", "a a a a");
        check("a mark while failing does not lead to haste", "+a ? +a a! ? 0.005 ?", "a - a");
    }

    #[test]
    fn waits_double_up_to_a_minute() {
        let waits: Vec<_> = [1, 2, 3, 10, 14, 15, u32::MAX].into_iter().map(backoff).collect();
        let expected = [5, 10, 20, 2560, 40_960, 60_000, 60_000].map(Duration::from_millis);
        assert_eq!(waits, expected);
    }
}
