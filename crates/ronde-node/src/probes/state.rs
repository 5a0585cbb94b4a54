//! What probe results mean for a container: thresholds, delays, and the startup probe before the others.
//!
//! Time is counted from the container's start, so that no wall clock is needed.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};

use crate::lifecycle::{Ailment, PodEvent, Severity};

const PERIOD_SECONDS_DEFAULT: i32 = 10;
const FAILURES_DEFAULT: i32 = 3;
const SUCCESSES_DEFAULT: i32 = 1;

/// Which probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Startup,
    Liveness,
    Readiness,
}

/// What the probes say of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    pub started: bool,
    pub ready: bool,
    pub unhealthy: Option<Ailment>,
}

/// How one probe went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    Success,
    /// A success with something to say.
    Warning(String),
    Failure(String),
    /// The probe itself could not be performed; does not count.
    Error(String),
}

/// All probes of one run of a container.
#[derive(Debug, Clone)]
pub struct ProbeState {
    health: Health,
    probes: Vec<Tracked>,
    is_ending: bool,
}

#[derive(Debug, Clone)]
struct Tracked {
    kind: Kind,
    period: Duration,
    successes_needed: u32,
    failures_needed: u32,
    next_at: Duration,
    /// The last result, and how often it came in a row.
    last: Option<(bool, u32)>,
    is_busy: bool,
    /// Has said what it had to say about this run.
    is_settled: bool,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    pub(super) fn spec_of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

impl ProbeState {
    /// Begins with a container that has just started, or with what was known of one that is found again.
    pub fn new(container: &Container, known: Option<Health>) -> Self {
        let probes = [Kind::Startup, Kind::Liveness, Kind::Readiness].into_iter();
        let probes = probes.filter_map(|kind| kind.spec_of(container).map(|spec| Tracked::new(kind, spec)));
        let started = container.startup_probe.is_none() || known.is_some_and(|known| known.started);
        let ready = started && (container.readiness_probe.is_none() || known.is_some_and(|known| known.ready));
        Self { health: Health { started, ready, unhealthy: None }, probes: probes.collect(), is_ending: false }
    }

    pub fn health(&self) -> Health {
        self.health
    }

    /// When the next probe is due; None if none is until a result comes in.
    pub fn next_at(&self) -> Option<Duration> {
        self.waiting().map(|probe| probe.next_at).min()
    }

    /// Returns a probe that is due and marks it as being performed.
    pub fn take_due(&mut self, now: Duration) -> Option<Kind> {
        let kind = self.waiting().filter(|probe| probe.next_at <= now).min_by_key(|probe| probe.next_at)?.kind;
        let probe = self.probes.iter_mut().find(|probe| probe.kind == kind)?;
        probe.is_busy = true;
        probe.next_at = now + probe.period;
        Some(kind)
    }

    /// Counts a result; returns its event, but for the place.
    pub fn record(&mut self, kind: Kind, outcome: &ProbeOutcome) -> Option<PodEvent> {
        let probe = self.probes.iter_mut().find(|probe| probe.kind == kind)?;
        probe.is_busy = false;
        let result = match outcome {
            ProbeOutcome::Success | ProbeOutcome::Warning(_) => Some(true),
            ProbeOutcome::Failure(_) => Some(false),
            ProbeOutcome::Error(_) => None,
        };
        if let Some(passed) = result.filter(|passed| probe.counts(*passed)) {
            self.conclude(kind, passed);
        }
        event(kind, outcome)
    }

    /// Ends the probes that could restart a container which is being stopped.
    pub fn end_restarts(&mut self) {
        self.is_ending = true;
        self.probes.retain(|probe| probe.kind == Kind::Readiness);
        self.health.unhealthy = None;
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending
    }

    fn conclude(&mut self, kind: Kind, passed: bool) {
        match (kind, passed) {
            (Kind::Startup, true) => {
                self.health.started = true;
                self.health.ready = !self.probes.iter().any(|probe| probe.kind == Kind::Readiness);
            }
            (Kind::Startup, false) => self.health.unhealthy = Some(Ailment::Startup),
            (Kind::Liveness, true) => {}
            (Kind::Liveness, false) => self.health.unhealthy = Some(Ailment::Liveness),
            (Kind::Readiness, _) => self.health.ready = passed,
        }
        let settles = kind == Kind::Startup || (kind == Kind::Liveness && !passed);
        for probe in self.probes.iter_mut().filter(|probe| settles && probe.kind == kind) {
            probe.is_settled = true;
        }
    }

    fn waiting(&self) -> impl Iterator<Item = &Tracked> {
        let started = self.health.started;
        self.probes.iter().filter(move |probe| {
            let is_its_time = (probe.kind == Kind::Startup) != started;
            is_its_time && !probe.is_busy && !probe.is_settled
        })
    }
}

impl Tracked {
    fn new(kind: Kind, spec: &Probe) -> Self {
        let positive =
            |value: Option<i32>, default: i32| value.filter(|value| *value > 0).unwrap_or(default).unsigned_abs();
        let delay = spec.initial_delay_seconds.unwrap_or_default().max(0).unsigned_abs();
        Self {
            kind,
            period: Duration::from_secs(positive(spec.period_seconds, PERIOD_SECONDS_DEFAULT).into()),
            successes_needed: positive(spec.success_threshold, SUCCESSES_DEFAULT),
            failures_needed: positive(spec.failure_threshold, FAILURES_DEFAULT),
            next_at: Duration::from_secs(delay.into()),
            last: None,
            is_busy: false,
            is_settled: false,
        }
    }

    /// Counts a result; returns whether it has come often enough.
    fn counts(&mut self, passed: bool) -> bool {
        let run = match self.last {
            Some((last, run)) if last == passed => run.saturating_add(1),
            _ => 1,
        };
        self.last = Some((passed, run));
        run >= if passed { self.successes_needed } else { self.failures_needed }
    }
}

fn event(kind: Kind, outcome: &ProbeOutcome) -> Option<PodEvent> {
    let name = kind.name();
    let (reason, message) = match outcome {
        ProbeOutcome::Success => return None,
        ProbeOutcome::Warning(text) => ("ProbeWarning", format!("{name} probe warning: {text}")),
        ProbeOutcome::Failure(text) => ("Unhealthy", format!("{name} probe failed: {text}")),
        ProbeOutcome::Error(text) => {
            ("Unhealthy", format!("{name} probe errored and resulted in unknown state: {text}"))
        }
    };
    Some(PodEvent { severity: Severity::Warning, reason: reason.to_owned(), message, field_path: String::new() })
}
