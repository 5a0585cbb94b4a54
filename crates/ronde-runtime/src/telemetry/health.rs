//! Whether a process does its work, as `/livez` and `/readyz` tell it.
//!
//! *Alive* is who is not stuck: no look of a controller and no turn of a loop has gone on for longer than any honest one, and
//! no loop has ended. Who is not alive is to be started again. *Ready* is who is alive, gets answers from the API server, and
//! either stands by or has filled its caches. Who is not ready says what it waits for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long the API server may be silent: whoever waits for the lease, or keeps it, asks every two seconds.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long one look or turn may take. The longest makes ten thousand pods, at a hundred a second on a slow server, and each of its
/// requests ends in time (`client.rs`).
pub const LOOK_MAX: Duration = Duration::from_secs(600);

/// What a process is at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Role {
    /// It has asked for the lease and heard nothing yet.
    #[default]
    Candidate,
    /// Another one is at work.
    Standby {
        holder: String,
    },
    Active,
}

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    /// What is wrong, or how things are.
    pub state: Result<String, String>,
}

/// What is known about the health of a process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    role: Role,
    /// When the API server last answered.
    answered: Option<Instant>,
    /// The kinds that have not been listed yet.
    unlisted: BTreeSet<String>,
    /// What is being looked at, by whom, since when.
    looks: BTreeMap<u64, Look>,
    next_look: u64,
    /// A loop has ended by itself.
    has_dead_loop: bool,
}

#[derive(Debug)]
struct Look {
    by: &'static str,
    at: String,
    since: Instant,
}

/// A look that goes on until it is dropped.
#[derive(Debug)]
pub struct Looking {
    health: Health,
    number: u64,
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.health.0.lock().looks.remove(&self.number);
    }
}

impl Health {
    pub fn set_role(&self, role: Role) {
        self.0.lock().role = role;
    }

    /// Notes that the API server has answered.
    pub fn note_answer(&self, now: Instant) {
        let silence = self.0.lock().answered.replace(now).map(|last| now.saturating_duration_since(last));
        if let Some(silence) = silence.filter(|silence| *silence > SILENCE_MAX) {
            tracing::info!(silent_seconds = silence.as_secs(), "the API server answers again");
        }
    }

    /// Begins anew with what has to be listed; what an earlier life was at is over.
    pub fn begin(&self, kinds: impl IntoIterator<Item = String>) {
        let mut inner = self.0.lock();
        inner.unlisted = kinds.into_iter().collect();
        inner.has_dead_loop = false;
    }

    pub fn note_list(&self, kind: &str) {
        self.0.lock().unlisted.remove(kind);
    }

    pub fn note_dead_loop(&self) {
        self.0.lock().has_dead_loop = true;
    }

    /// Notes that somebody looks at something, until the answer is dropped.
    pub fn look(&self, by: &'static str, at: impl ToString, now: Instant) -> Looking {
        let mut inner = self.0.lock();
        let number = inner.next_look;
        inner.next_look += 1;
        inner.looks.insert(number, Look { by, at: at.to_string(), since: now });
        Looking { health: self.clone(), number }
    }

    /// Returns what `/livez` is about.
    pub fn liveness(&self, now: Instant) -> Vec<Check> {
        vec![self.0.lock().check_loops(now)]
    }

    /// Returns what `/readyz` is about.
    pub fn readiness(&self, now: Instant) -> Vec<Check> {
        let inner = self.0.lock();
        vec![inner.check_server(now), inner.check_leadership(), inner.check_caches(), inner.check_loops(now)]
    }
}

impl Inner {
    fn check_server(&self, now: Instant) -> Check {
        let silence = self.answered.map(|last| now.saturating_duration_since(last));
        let state = match silence {
            None => Err("the API server has not answered yet".to_owned()),
            Some(silence) if silence > SILENCE_MAX => Err(format!("no answer for {}s", silence.as_secs())),
            Some(_) => Ok("answers".to_owned()),
        };
        Check { name: "api-server", state }
    }

    fn check_leadership(&self) -> Check {
        let state = match &self.role {
            Role::Candidate => Err("waiting for the lease".to_owned()),
            Role::Standby { holder } => Ok(format!("standby: `{holder}` is active")),
            Role::Active => Ok("active".to_owned()),
        };
        Check { name: "leadership", state }
    }

    fn check_caches(&self) -> Check {
        let state = if self.role != Role::Active {
            Ok("not needed now".to_owned())
        } else if self.unlisted.is_empty() {
            Ok("filled".to_owned())
        } else {
            let kinds: Vec<&str> = self.unlisted.iter().map(String::as_str).collect();
            Err(format!("waiting for the list of {}", kinds.join(", ")))
        };
        Check { name: "caches", state }
    }

    fn check_loops(&self, now: Instant) -> Check {
        let age = |look: &Look| now.saturating_duration_since(look.since);
        let stuck = self.looks.values().find(|look| age(look) > LOOK_MAX);
        let state = match stuck {
            _ if self.has_dead_loop => Err("a loop has ended by itself; this is a bug".to_owned()),
            Some(look) => Err(format!("{} has been at `{}` for {}s", look.by, look.at, age(look).as_secs())),
            None => Ok("turning".to_owned()),
        };
        Check { name: "loops", state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(checks: &[Check]) -> String {
        let told = |check: &Check| match &check.state {
            Ok(how) => format!("+{} {how}", check.name),
            Err(why) => format!("-{} {why}", check.name),
        };
        checks.iter().map(told).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn who_waits_says_for_what() {
        let (health, start) = (Health::default(), Instant::now());
        let ready = |seconds| told(&health.readiness(start + Duration::from_secs(seconds)));
        assert_eq!(
            ready(0),
            "-api-server the API server has not answered yet; -leadership waiting for the lease; +caches not needed now; \
             +loops turning"
        );
        health.note_answer(start);
        health.set_role(Role::Standby { holder: "other".to_owned() });
        assert_eq!(
            ready(10),
            "+api-server answers; +leadership standby: `other` is active; +caches not needed now; +loops turning"
        );
        health.begin(["Pod", "Node"].map(str::to_owned));
        health.set_role(Role::Active);
        health.note_list("Pod");
        assert_eq!(
            ready(11),
            "-api-server no answer for 11s; +leadership active; -caches waiting for the list of Node; +loops turning"
        );
        health.note_list("Node");
        health.note_answer(start + Duration::from_secs(11));
        assert_eq!(ready(11), "+api-server answers; +leadership active; +caches filled; +loops turning");
    }

    #[test]
    fn who_is_stuck_is_not_alive() {
        let (health, start) = (Health::default(), Instant::now());
        let alive = |seconds| told(&health.liveness(start + Duration::from_secs(seconds)));
        let look = health.look("job-controller", "team-a/mnist", start);
        drop(health.look("job-controller", "team-a/other", start));
        assert_eq!(alive(600), "+loops turning");
        assert_eq!(alive(601), "-loops job-controller has been at `team-a/mnist` for 601s");
        drop(look);
        assert_eq!(alive(601), "+loops turning");
        health.note_dead_loop();
        assert_eq!(alive(601), "-loops a loop has ended by itself; this is a bug");
        health.begin([]);
        assert_eq!(alive(601), "+loops turning");
    }
}
