//! Loops over the whole cluster: what has changed is collected, then looked at together.
//!
//! A scheduler cannot look at one object at a time. It gets its turns from here: the watches only leave marks, a turn
//! takes all that have come, and changes that follow each other closely are one turn. A loop that panics starts again from
//! the caches, as after a restart of the process; it keeps no state that is not in the API.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use jiff::SignedDuration;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    runner::{Ctx, Inbox, STOP_GRACE},
    watch::{Caches, Change, Kinds},
    work_queue::backoff,
};

/// How long a turn waits for more after the first change: the pods of a job are made within a few of these.
const BATCH: Duration = Duration::from_millis(2);
/// Looking early is harmless; adding years to a clock is not.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// A loop over the whole cluster.
pub trait ClusterLoop: Send + Sync + 'static {
    /// The component that its events and logs name.
    const NAME: &'static str;

    /// What is remembered of a change until the next turn.
    type Mark: Ord + Send + 'static;
    /// What it knows; only a faster way to what the caches say.
    type State: Send;

    /// Names every kind that the loop reads.
    fn kinds(&self, kinds: &mut Kinds);

    /// Returns what the next turn has to look at because of a change. Cheap: it is asked for every one.
    fn marks(&self, change: &Change, caches: &Caches) -> Vec<Self::Mark>;

    /// Returns the state of a loop that knows nothing.
    fn begin(&self) -> Self::State;

    /// Returns the marks of everything there is, for the first turn.
    fn all(&self, caches: &Caches) -> BTreeSet<Self::Mark>;

    /// Looks at what has changed and acts; returns when to take the next turn even if nothing changes.
    fn turn(
        &self,
        ctx: &Ctx,
        state: &mut Self::State,
        marks: BTreeSet<Self::Mark>,
    ) -> impl Future<Output = Option<SignedDuration>> + Send;
}

/// Gives a loop its turns until `stop`.
pub async fn serve<L: ClusterLoop>(
    cluster_loop: Arc<L>,
    ctx: Ctx,
    inbox: Arc<Inbox<L::Mark>>,
    stop: CancellationToken,
) {
    // The first mark comes when everything has been listed.
    if stop.run_until_cancelled(inbox.marked()).await.is_none() {
        return;
    }
    let mut panics = 0;
    while !stop.is_cancelled() {
        let turns = AssertUnwindSafe(take_turns(&*cluster_loop, &ctx, &inbox, &stop)).catch_unwind();
        if turns.await.is_err() {
            tracing::error!(controller = L::NAME, "panicked; this is a bug, please report it");
            panics += 1;
            stop.run_until_cancelled(sleep(backoff(panics))).await;
        }
    }
}

async fn take_turns<L: ClusterLoop>(cluster_loop: &L, ctx: &Ctx, inbox: &Inbox<L::Mark>, stop: &CancellationToken) {
    let mut state = cluster_loop.begin();
    inbox.take();
    let mut marks = cluster_loop.all(&ctx.caches);
    loop {
        let wait = {
            let _looking = ctx.telemetry.health.look(L::NAME, "everything", Instant::now());
            let mut turn = std::pin::pin!(cluster_loop.turn(ctx, &mut state, marks));
            tokio::select! {
                wait = &mut turn => wait,
                () = stop.cancelled() => {
                    if timeout(STOP_GRACE, turn).await.is_err() {
                        tracing::warn!(controller = L::NAME, "stopped in the middle of its work");
                    }
                    return;
                }
            }
        };
        let due = wait.map(|wait| Instant::now() + Duration::try_from(wait).unwrap_or_default().min(WAIT_MAX));
        tokio::select! {
            () = stop.cancelled() => return,
            () = inbox.marked() => sleep(BATCH).await,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
        marks = inbox.take();
    }
}
