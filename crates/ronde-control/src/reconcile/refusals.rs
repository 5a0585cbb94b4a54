//! What the API refuses to make for jobs, until it does: told by their statuses, so that users need not look for events.
//!
//! Kept by the controllers and nowhere else: after a restart the first attempt is refused again.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use ronde_runtime::{
    pods::{apply::text, disruption::short},
    refusal::Refusal,
    watch::Key,
};

/// The last refusal for each job that has one.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<Key, String>>);

impl Refusals {
    /// Returns why nothing can be made for a job, in the words of the server.
    pub fn of_job(&self, job: &Key) -> Option<String> {
        self.0.lock().get(job).cloned()
    }

    /// Remembers a refusal that lasts; tells whether it is a new one.
    pub fn note(&self, job: &Key, error: &kube::Error) -> bool {
        if !Refusal::of_error(error).is_some_and(Refusal::is_lasting) {
            return false;
        }
        let why = short(&text(error));
        self.0.lock().insert(job.clone(), why.clone()).is_none_or(|before| before != why)
    }

    /// Forgets the refusal of a job; tells whether there was one.
    pub fn forget(&self, job: &Key) -> bool {
        self.0.lock().remove(job).is_some()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_lasts_is_remembered_and_new_only_once() {
        let (refusals, job) = (Refusals::default(), Key::new("ns", "j"));
        let error = |code: u16, message: &str| kube::Error::Api(Status::failure(message, "").with_code(code).boxed());
        assert!(!refusals.note(&job, &error(409, "lost a race")) && !refusals.note(&job, &error(500, "busy")));
        assert!(refusals.note(&job, &error(403, "violates PodSecurity")));
        assert!(!refusals.note(&job, &error(403, "violates PodSecurity")), "the same again");
        assert!(refusals.note(&job, &error(403, "exceeded quota")));
        assert_eq!(refusals.of_job(&job).as_deref(), Some("exceeded quota"));
        assert!(refusals.forget(&job) && !refusals.forget(&job));
    }
}
