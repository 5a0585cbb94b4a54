//! The task of a container that performs its probes, each at its own pace, and tells what they say.

use std::time::Duration;

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    Reach, Target,
    handler::perform,
    state::{Health, Kind, ProbeOutcome, ProbeState},
};
use crate::lifecycle::PodEvent;

/// How a container is watched.
#[derive(Debug)]
pub struct Watching<N> {
    /// How long the container has run already.
    pub age: Duration,
    pub state: ProbeState,
    /// Where the health is told, whenever it changes.
    pub health: watch::Sender<Health>,
    /// Whether the container is being stopped: then only readiness counts.
    pub ending: watch::Receiver<bool>,
    /// Takes the events.
    pub report: N,
}

/// Performs the probes of a container until none is left to perform; drop it when the container ends.
pub async fn watch_health<R: Reach, N: FnMut(PodEvent)>(target: &Target<R>, watching: Watching<N>) {
    let Watching { age, mut state, health, mut ending, mut report } = watching;
    let begin = Instant::now();
    let mut running = FuturesUnordered::new();
    loop {
        publish_health(&health, state.health());
        while let Some(kind) = state.take_due(age + begin.elapsed()) {
            running.push(run(target, kind));
        }
        let next = state.next_at();
        if next.is_none() && running.is_empty() {
            return;
        }
        let due = begin + next.unwrap_or_default().saturating_sub(age);
        tokio::select! {
            Some((kind, outcome)) = running.next(), if !running.is_empty() => {
                if let Some(told) = state.record(kind, &outcome) {
                    report(PodEvent { field_path: target.field_path.clone(), ..told });
                }
            }
            () = sleep_until(due), if next.is_some() => {}
            Ok(_) = ending.wait_for(|ending| *ending), if !state.is_ending() => state.end_restarts(),
        }
    }
}

fn publish_health(health: &watch::Sender<Health>, now: Health) {
    health.send_if_modified(|known| {
        let is_changed = *known != now;
        *known = now;
        is_changed
    });
}

async fn run<R: Reach>(target: &Target<R>, kind: Kind) -> (Kind, ProbeOutcome) {
    let probe = kind.spec_of(&target.container).expect("only probes that the container has are tracked");
    (kind, perform(target, probe).await)
}
