//! The shell of the scheduler: observes the cluster, asks `ronde-scheduler` for a plan, carries it out.
//!
//! ```text
//! watches ─▶ dirty ─▶ objects ─▶ Cluster::cycle ─▶ Plan ─▶ apply, status
//!              ▲                                              │
//!              └────────────── what has changed ◀─────────────┘
//! ```
//! One loop for the whole cluster, on a cluster and on one machine alike. It waits for changes, not for a clock, and keeps
//! nothing that is not in the API: started anew, it goes on where it was. Whom to place where is decided elsewhere.

pub mod apply;
pub mod dirty;
pub mod objects;
pub mod state;
pub mod status;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use ronde_runtime::{
    cluster_loop::ClusterLoop,
    runner::Ctx,
    watch::{Caches, Kinds},
    work_queue::backoff,
};
use ronde_scheduler::{Change, Cluster, Plan, Policy, Step, Time};
use tokio::time::Instant;

use self::{apply::StepOutcome, dirty::Mark, state::State};
use crate::{
    membership::{DEFAULT_SCHEDULER, Schedulers},
    metrics::{CYCLE_SECONDS, GANGS_WAITING},
};

/// The longest pause after something has failed.
const PAUSE_MAX: SignedDuration = SignedDuration::from_secs(5);

/// The scheduler.
#[derive(Debug, Clone)]
pub struct Scheduler {
    /// The names of the schedulers whose pods it places.
    pub schedulers: Schedulers,
    /// Labels of nodes that name parts of the network, the closest first.
    pub tier_labels: Vec<String>,
    pub policy: Policy,
}

impl Scheduler {
    /// Makes the scheduler of a cluster that has another one for plain pods.
    pub fn for_cluster() -> Self {
        let schedulers = ronde_api::names::SCHEDULERS.map(str::to_owned).into();
        Self { schedulers, tier_labels: Vec::new(), policy: Policy::default() }
    }

    /// Makes the only scheduler of a machine.
    pub fn for_machine() -> Self {
        let mut scheduler = Self::for_cluster();
        scheduler.schedulers.insert(DEFAULT_SCHEDULER.to_owned());
        scheduler
    }

    /// Returns the cluster as a scheduler sees it that starts now, to ask what it would do.
    pub fn look(&self, caches: &Caches) -> Cluster {
        let mut state = self.begin();
        state.observe(caches, dirty::all(caches));
        state.cluster
    }
}

impl ClusterLoop for Scheduler {
    const NAME: &'static str = "ronde-scheduler";
    type Mark = Mark;
    type State = State;

    fn kinds(&self, kinds: &mut Kinds) {
        dirty::kinds(kinds);
    }

    fn marks(&self, change: &ronde_runtime::watch::Change, caches: &Caches) -> Vec<Mark> {
        dirty::marks_of(change, caches)
    }

    fn begin(&self) -> State {
        State::new(self.policy.clone(), self.schedulers.clone(), self.tier_labels.clone())
    }

    fn all(&self, caches: &Caches) -> BTreeSet<Mark> {
        dirty::all(caches)
    }

    async fn turn(&self, ctx: &Ctx, state: &mut State, marks: BTreeSet<Mark>) -> Option<SignedDuration> {
        let now = ctx.clock.now();
        let mut parts = Parts { ctx, since: Instant::now() };
        // 1. observe
        let has_news = !marks.is_empty();
        state.observe(&ctx.caches, marks);
        parts.end("observe");
        // 2. decide
        let plan = state.cluster.cycle(Time::from_millis(now.as_millisecond()));
        state.note(&plan, now);
        parts.end("decide");
        // 3. act
        let acted_well = carry_out(ctx, state, &plan).await;
        parts.end("act");
        // 4. tell
        if has_news || !plan.steps.is_empty() {
            status::mark_queue_usage_stale(state, now);
        }
        let told_well = status::write_stale(ctx, state).await;
        let counted_well = status::write_queues(ctx, state).await;
        parts.end("tell");
        for (reason, gangs) in state.waiting_by_reason() {
            ctx.telemetry.metrics.set(&GANGS_WAITING, [reason.as_str()], gangs);
        }
        // 5. rest
        state.failures = if acted_well && told_well && counted_well { 0 } else { state.failures.saturating_add(1) };
        next_turn_in(state, &plan, ctx.clock.now())
    }
}

/// Measures the parts of a turn.
struct Parts<'a> {
    ctx: &'a Ctx,
    since: Instant,
}

impl Parts<'_> {
    fn end(&mut self, part: &'static str) {
        let now = Instant::now();
        self.ctx.telemetry.metrics.observe(&CYCLE_SECONDS, [part], now - self.since);
        self.since = now;
    }
}

/// Takes the steps of a plan and tells the scheduler which failed; returns whether none did for good.
async fn carry_out(ctx: &Ctx, state: &mut State, plan: &Plan) -> bool {
    let bound = plan.steps.iter().filter_map(|step| match step {
        Step::Bind { pod, .. } => Some(apply::key(pod)),
        _ => None,
    });
    state.binding.extend(bound);
    let outcomes = apply::apply_all(ctx, state, &plan.steps).await;
    let mut went_well = true;
    for (step, outcome) in outcomes.into_iter().filter(|(_, outcome)| *outcome != StepOutcome::Done) {
        went_well &= outcome != StepOutcome::Failed;
        if let Step::Bind { pod, .. } = step {
            state.binding.remove(&apply::key(pod));
        }
        state.cluster.apply(Change::Failed(step.clone()));
    }
    went_well
}

fn next_turn_in(state: &State, plan: &Plan, now: Timestamp) -> Option<SignedDuration> {
    let pause = SignedDuration::try_from(backoff(state.failures)).unwrap_or(PAUSE_MAX).min(PAUSE_MAX);
    let has_more = !state.stale.is_empty() && state.failures == 0;
    let look_again = plan.look_again.and_then(|at| Timestamp::from_millisecond(at.as_millis()).ok());
    let due = look_again.into_iter().chain(status::next_due(state)).min();
    let due = due.map(|due| due.duration_since(now).max(SignedDuration::ZERO));
    let retry = (state.failures > 0).then_some(pause);
    let rest = has_more.then_some(SignedDuration::ZERO);
    due.into_iter().chain(retry).chain(rest).min()
}
