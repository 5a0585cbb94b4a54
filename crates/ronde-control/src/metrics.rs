//! What the batch controllers, the scheduler and the operator count and measure; how is said in `ronde_runtime::telemetry`.

use ronde_runtime::telemetry::{self, metrics::SECONDS};
use ronde_text::metrics::Metric;

/// The labels of a metric that has none.
pub const NO_LABELS: [&str; 0] = [];
/// From a second to half a day: how long pods wait for a place, and changes of size for their workers.
const WAITS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0];

pub static ACTIVE: Metric =
    Metric::gauge("ronde_operator_active", &[], "1 if this operator is the active one, 0 if it stands by.");
pub static TERMS: Metric =
    Metric::counter("ronde_operator_terms_total", &[], "How often this operator has become the active one.");
pub static CYCLE_SECONDS: Metric = Metric::histogram(
    "ronde_scheduler_cycle_seconds",
    &["part"],
    SECONDS,
    "How long the parts of a scheduling cycle took: `observe`, `decide`, `act` (writes of placements) and `tell` (writes of statuses).",
);
pub static GANGS_WAITING: Metric = Metric::gauge(
    "ronde_scheduler_gangs_waiting",
    &["reason"],
    "Gangs that wait for a place, by reason; a pod without a gang counts as one.",
);
pub static STEPS: Metric = Metric::counter(
    "ronde_scheduler_steps_total",
    &["step", "outcome"],
    "Steps of placement (`admit`, `bind`, `evict`, `nominate`) by outcome: `done`, `late` (planned anew) or `failed`.",
);
pub static PLACEMENT_SECONDS: Metric = Metric::histogram(
    "ronde_scheduler_pod_placement_seconds",
    &[],
    WAITS,
    "How long pods waited from their creation, which is known to the second, to their node; its count is the number of placed pods.",
);
pub static JOB_RESTARTS: Metric = Metric::counter(
    "ronde_job_restarts_total",
    &["kind"],
    "Restarts of jobs, whole or in part, by kind of job; what others did to the pods included.",
);
pub static RESIZE_SECONDS: Metric = Metric::histogram(
    "ronde_elastic_resize_seconds",
    &["way", "outcome"],
    WAITS,
    "How long changes of size took from their beginning until all workers had come or gone, by way and outcome; the training stands still only for part of it.",
);

/// What the controllers and the scheduler tell, on a cluster and on one machine.
static BATCH: [&Metric; 6] =
    [&CYCLE_SECONDS, &GANGS_WAITING, &STEPS, &PLACEMENT_SECONDS, &JOB_RESTARTS, &RESIZE_SECONDS];
/// What an operator tells beside.
pub static OPERATOR: [&Metric; 2] = [&ACTIVE, &TERMS];

/// Lists what controllers tell wherever they run.
pub fn of_controllers() -> impl Iterator<Item = &'static Metric> {
    BATCH.iter().chain(&telemetry::metrics::ALL).copied()
}

/// Lists what an operator tells.
pub fn of_operator() -> impl Iterator<Item = &'static Metric> {
    OPERATOR.into_iter().chain(of_controllers())
}
