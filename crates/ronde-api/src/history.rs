//! What the status of a job remembers of its phases, for who asks later how it went: events are gone after an hour.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many phases a status remembers; each takes 100 bytes, and up to 700 with long messages.
pub const PHASES_MAX: usize = 20;
/// How many changes of size; each takes about 150 bytes.
pub const SIZES_MAX: usize = 20;
/// How many characters of a message.
const MESSAGE_MAX: usize = 300;

/// A phase that a job was in, or is in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseRecord {
    /// The phase.
    pub phase: String,
    /// When it began.
    pub since: Time,
    /// Why it began, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why it began, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What was in the way during it, as last said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub obstacle: String,
    /// How many pods ran at most; of a training job how many workers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pods: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// Adds what is so now to the phases that are remembered. The first is never forgotten: it says how long a job waited.
pub fn remember(phases: &mut Vec<PhaseRecord>, mut now: PhaseRecord) {
    now.message = shortened(&now.message);
    now.obstacle = shortened(&now.obstacle);
    match phases.last_mut() {
        Some(last) if last.phase == now.phase => {
            last.pods = last.pods.max(now.pods);
            if !now.obstacle.is_empty() {
                last.obstacle = now.obstacle;
            }
        }
        _ => phases.push(now),
    }
    if phases.len() > PHASES_MAX {
        phases.remove(1);
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn record(phase: &str, second: i64, obstacle: &str, pods: i32) -> PhaseRecord {
        PhaseRecord {
            phase: phase.to_owned(),
            since: Time(Timestamp::from_second(second).expect("a time")),
            reason: String::new(),
            message: String::new(),
            obstacle: obstacle.to_owned(),
            pods,
        }
    }

    fn told(phases: &[PhaseRecord]) -> String {
        let one = |it: &PhaseRecord| format!("{}@{}:{}:{}", it.phase, it.since.0.as_second(), it.obstacle, it.pods);
        phases.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_phase_is_remembered_once_with_its_last_obstacle_and_its_most_pods() {
        let mut phases = Vec::new();
        let seen = [
            ("Pending", "queue", 0),
            ("Pending", "room", 0),
            ("Pending", "", 2),
            ("Running", "", 3),
            ("Running", "", 1),
        ];
        for (second, (phase, obstacle, pods)) in (0..).zip(seen) {
            remember(&mut phases, record(phase, second, obstacle, pods));
        }
        assert_eq!(told(&phases), "Pending@0:room:2 Running@3::3");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_keeps_the_first_and_the_last() {
        let mut phases = Vec::new();
        for second in 0..1000 {
            remember(&mut phases, record(if second % 2 == 0 { "Pending" } else { "Running" }, second, "ü", 0));
        }
        assert_eq!(phases.len(), PHASES_MAX);
        assert_eq!((phases[0].since.0.as_second(), phases[PHASES_MAX - 1].since.0.as_second()), (0, 999));
        remember(&mut phases, record("Running", 1000, &"ü".repeat(1000), 0));
        assert_eq!(phases[PHASES_MAX - 1].obstacle.chars().count(), MESSAGE_MAX + 1);
    }
}
