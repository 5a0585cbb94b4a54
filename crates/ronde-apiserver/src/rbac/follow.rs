//! The policy as the store has it: brought up to date by what has been written since it was last asked.
//!
//! There is no task in between that could lag behind or be missed: who asks sees every write that has been answered.

use parking_lot::Mutex;

use super::{Attributes, Kind, Policy, Verdict};
use crate::{
    auth::User,
    store::{EventKind, Range, Revision, Store},
};

/// The policy of a store; the administrator's requests do not touch it.
#[derive(Default)]
pub struct Followed(Mutex<State>);

#[derive(Default)]
struct State {
    policy: Policy,
    /// The revision up to which each kind is known; none before the first question.
    seen: [Option<Revision>; 4],
    /// The revision up to which all are known.
    newest: Option<Revision>,
}

impl Followed {
    /// Decides whether a user may do something, by what is stored now.
    pub fn decide(&self, store: &Store, user: &User, attributes: &Attributes<'_>) -> Verdict {
        if user.is_admin() {
            return Verdict { allowed: true, reason: String::new() };
        }
        self.ask(store, |policy| policy.decide(user, attributes))
    }

    /// Asks the policy as it is now.
    pub fn ask<T>(&self, store: &Store, question: impl FnOnce(&Policy) -> T) -> T {
        let mut state = self.0.lock();
        state.catch_up(store);
        question(&state.policy)
    }
}

impl State {
    fn catch_up(&mut self, store: &Store) {
        let now = store.revision();
        if self.newest == Some(now) {
            return;
        }
        for (kind, seen) in Kind::ALL.into_iter().zip(&mut self.seen) {
            let events = seen.and_then(|since| store.events(kind.collection(), since, usize::MAX).ok());
            *seen = match events {
                Some(news) => {
                    for event in &news.events {
                        let object = (event.kind != EventKind::Deleted).then(|| event.object.value());
                        let place = &event.object.place;
                        self.policy.set(kind, &place.namespace, &place.name, object.as_ref());
                    }
                    Some(news.complete_to)
                }
                None => Some(read_all(&mut self.policy, store, kind)),
            };
        }
        self.newest = Some(now);
    }
}

/// Reads everything of a kind; returns the revision at which that was.
fn read_all(policy: &mut Policy, store: &Store, kind: Kind) -> Revision {
    let page = store.list(kind.collection(), &Range::default()).expect("the newest revision is always there");
    policy.clear(kind);
    for object in &page.objects {
        policy.set(kind, &object.place.namespace, &object.place.name, Some(&object.value()));
    }
    page.revision
}
