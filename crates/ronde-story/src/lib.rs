//! The story of a job: when it was submitted, what it waited for, when it started, which sizes it had and why, what it
//! lost, how it ended.
//!
//! [`tell`] makes it from the objects of the API as they are now. Pure: who asks reads them, and says what time it is. What
//! is told of long jobs comes from the status of objects (`phases`, `sizes`), because events are gone after an hour; what
//! is gone is named in [`Story::gaps`]. A story has two forms beside its JSON: [`text`] for terminals, [`svg`] as a picture.
//!
//! Inside: `facts.rs` reads a job of either kind, `phases.rs`, `sizes.rs` and `troubles.rs` each tell a part, `chart.rs`
//! is what both forms draw.

mod chart;
mod facts;
mod phases;
mod sizes;
mod story;
pub mod svg;
#[cfg(test)]
mod tests;
pub mod text;
mod troubles;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use ronde_api::{Job, ScaleIn, ScaleOut, TrainingJob};

pub use self::story::{Moment, Sample, Size, Story, What};
use self::{facts::Facts, phases::Times};

/// The job that is told of.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    Training(&'a TrainingJob),
    Batch(&'a Job),
}

/// What is known of a job.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub job: Subject<'a>,
    /// Its pods that are there.
    pub pods: &'a [Pod],
    /// The events of the job and of its pods.
    pub events: &'a [Event],
    /// The scale operations that name it.
    pub scale_outs: &'a [ScaleOut],
    pub scale_ins: &'a [ScaleIn],
    /// What its output says, by time.
    pub samples: &'a [Sample],
    pub now: Timestamp,
}

/// Tells the story of a job.
pub fn tell(seen: &Seen<'_>) -> Story {
    let facts = Facts::of(seen.job);
    let times = Times::of(&facts);
    let sizes = sizes::of(seen, &facts);
    let mut moments = phases::moments(&facts, &sizes, seen.now);
    let of_phases = moments.len();
    moments.push(Moment::new(facts.submitted, What::Submitted, facts.asked.clone()));
    moments.extend(sizes::moments(seen, &facts, &sizes));
    moments.extend(phases::placing(&facts, seen.pods));
    moments.extend(troubles::of_scalers(seen, facts.submitted));
    let warnings = troubles::of_events(seen.events, &moments);
    moments.extend(warnings);
    let moments = in_order(moments, of_phases);
    let (start, end) = (times.started, times.ended.unwrap_or(seen.now));
    Story {
        version: story::VERSION,
        kind: facts.kind,
        namespace: facts.namespace,
        name: facts.name,
        queue: facts.queue,
        phase: facts.phase,
        unit: facts.unit,
        message: facts.message,
        submitted: facts.submitted,
        started: start,
        ended: times.ended,
        until: end,
        moments,
        sizes,
        samples: story::thinned(seen.samples),
        gaps: facts.gaps,
    }
}

/// Sorts what happened by time. Those of phases, the first, stay in the order of the status also within a second.
fn in_order(moments: Vec<Moment>, of_phases: usize) -> Vec<Moment> {
    let mut last = (Timestamp::MIN, 0);
    let keyed = moments.into_iter().enumerate().map(|(number, moment)| {
        let mut key = (moment.time, moment.what.place());
        if number < of_phases {
            key.1 = if key.0 == last.0 { key.1.max(last.1) } else { key.1 };
            last = key;
        }
        (key, moment)
    });
    let mut keyed: Vec<_> = keyed.collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, moment)| moment).collect()
}
