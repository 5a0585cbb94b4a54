//! Runs controllers: watches what they read, queues what changes, lets each look at one key at a time.
//!
//! [`Controller`] is all that a controller has to say. It never hears what has changed, only which of its objects to look
//! at; a look that fails or panics is repeated later, whatever else happens. A [`ClusterLoop`] looks at everything at
//! once instead. Knows only the API of Kubernetes: whether the server is in this process or a real cluster makes
//! no difference.

use std::{collections::BTreeSet, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    causes::Causes,
    cluster_loop::{self, ClusterLoop},
    events::{self, Recorder},
    telemetry::{
        Telemetry,
        metrics::{QUEUED_KEYS, RECONCILE_SECONDS, RECONCILES},
    },
    watch::{Cached, Caches, Change, Key, Kinds},
    work_queue::{LookOutcome, Queue},
};

/// How long a stop waits for looks that have begun; each is a handful of requests.
pub const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long a few requests may take that belong together.
const REQUESTS_MAX: Duration = Duration::from_secs(10);

/// A loop over the objects of one kind.
pub trait Controller: Send + Sync + 'static {
    /// The component that its events and logs name, such as `replicaset-controller`.
    const NAME: &'static str;
    /// How many keys it looks at side by side.
    const CONCURRENCY: usize = 4;

    /// Names every kind that [`Self::affected`] and [`Self::reconcile`] read.
    fn kinds(&self, kinds: &mut Kinds);

    /// Returns which objects have to be looked at again because of a change. Cheap: it is asked for every one.
    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key>;

    /// Brings the world closer to what one object asks for; returns when to look again even if nothing changes.
    fn reconcile(
        &self,
        ctx: &Ctx,
        key: &Key,
    ) -> impl Future<Output = Result<Option<SignedDuration>, kube::Error>> + Send;
}

/// What a controller works with.
#[derive(Clone)]
pub struct Ctx {
    pub client: Client,
    pub caches: Caches,
    pub clock: Clock,
    pub events: Recorder,
    pub telemetry: Telemetry,
}

/// The time that objects are stamped with.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the rim: controllers get the time from here")]
    pub fn real() -> Self {
        Self::new(Timestamp::now)
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The controllers of a process, before they run.
pub struct Runner {
    client: Client,
    clock: Clock,
    telemetry: Telemetry,
    kinds: Kinds,
    entries: Vec<Entry>,
}

type Listener = Box<dyn Fn(&Change, &Caches) + Send + Sync>;

/// A controller whose type is forgotten.
struct Entry {
    name: &'static str,
    listener: Listener,
    serve: Box<dyn FnOnce(Ctx, CancellationToken) -> BoxFuture<'static, ()> + Send>,
}

impl Runner {
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, telemetry: Telemetry::default(), kinds: Kinds::default(), entries: Vec::new() }
    }

    /// Lets others see how the controllers fare.
    #[must_use]
    pub fn told_to(self, telemetry: Telemetry) -> Self {
        Self { telemetry, ..self }
    }

    /// Adds a controller.
    pub fn add<C: Controller>(&mut self, controller: C) -> &mut Self {
        controller.kinds(&mut self.kinds);
        let controller = Arc::new(controller);
        let inbox = Arc::new(Inbox::default());
        let listener = {
            let (controller, inbox) = (controller.clone(), inbox.clone());
            move |change: &Change, caches: &Caches| inbox.put(controller.affected(change, caches))
        };
        self.entries.push(Entry {
            name: C::NAME,
            listener: Box::new(listener),
            serve: Box::new(move |ctx, stop| serve(controller, ctx, inbox, stop).boxed()),
        });
        self
    }

    /// Lets the caches keep less of a kind that the controllers read.
    pub fn trim<K: Cached>(&mut self, trim: fn(&mut K)) -> &mut Self {
        self.kinds.trim(trim);
        self
    }

    /// Adds a loop over the whole cluster.
    pub fn add_loop<L: ClusterLoop>(&mut self, cluster_loop: L) -> &mut Self {
        cluster_loop.kinds(&mut self.kinds);
        let cluster_loop = Arc::new(cluster_loop);
        let inbox = Arc::new(Inbox::default());
        let listener = {
            let (cluster_loop, inbox) = (cluster_loop.clone(), inbox.clone());
            move |change: &Change, caches: &Caches| inbox.put(cluster_loop.marks(change, caches))
        };
        self.entries.push(Entry {
            name: L::NAME,
            listener: Box::new(listener),
            serve: Box::new(move |ctx, stop| cluster_loop::serve(cluster_loop, ctx, inbox, stop).boxed()),
        });
        self
    }

    /// Runs all of them until `stop`; the first looks come when everything they read has been listed.
    ///
    /// Ends a few seconds after `stop` whatever the server does; dropped, it ends everything where it is.
    pub async fn run(self, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        let (events, written) = events::channel(self.client.clone(), self.clock.clone());
        let mut listeners = Vec::new();
        let mut loops = Vec::new();
        for entry in self.entries {
            listeners.push(entry.listener);
            loops.push((entry.name, entry.serve));
        }
        let mut started = self.kinds.start(&self.client, listeners, &self.telemetry);
        for watch in std::mem::take(&mut started.watches) {
            tasks.spawn(stop.clone().run_until_cancelled_owned(watch).map(drop));
        }
        for (name, serve) in loops {
            let ctx = Ctx {
                client: self.client.clone(),
                caches: started.caches.clone(),
                clock: self.clock.clone(),
                events: events.for_component(name),
                telemetry: self.telemetry.clone(),
            };
            tasks.spawn(serve(ctx, stop.clone()));
        }
        tasks.spawn(written.run(stop.clone()));
        tasks.spawn(stop.run_until_cancelled_owned(started.ready()).map(drop));
        while let Some(ended) = tasks.join_next().await {
            if ended.is_err_and(|error| error.is_panic()) {
                self.telemetry.health.note_dead_loop();
            }
        }
    }
}

/// Lets requests take only so long: one that is never answered must not keep everybody else waiting.
pub async fn in_time<T>(requests: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    timeout(REQUESTS_MAX, requests).await.unwrap_or_else(|elapsed| Err(kube::Error::Service(elapsed.into())))
}

/// Where the watches leave the marks for a controller or loop; as large as the number of its objects.
pub struct Inbox<T> {
    marks: Mutex<BTreeSet<T>>,
    marked: Notify,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { marks: Mutex::default(), marked: Notify::default() }
    }
}

impl<T: Ord> Inbox<T> {
    fn put(&self, marks: Vec<T>) {
        if !marks.is_empty() {
            self.marks.lock().extend(marks);
            self.marked.notify_one();
        }
    }

    pub fn take(&self) -> BTreeSet<T> {
        std::mem::take(&mut *self.marks.lock())
    }

    /// Waits until something has been put there since the last wait.
    pub async fn marked(&self) {
        self.marked.notified().await;
    }
}

/// The loop of one controller.
async fn serve<C: Controller>(controller: Arc<C>, ctx: Ctx, inbox: Arc<Inbox<Key>>, stop: CancellationToken) {
    let mut queue = Queue::default();
    let mut looks = JoinSet::new();
    loop {
        inbox.take().into_iter().for_each(|key| queue.mark(key));
        while looks.len() < C::CONCURRENCY
            && let Some(key) = queue.next(Instant::now())
        {
            looks.spawn(look(controller.clone(), ctx.clone(), key));
        }
        ctx.telemetry.metrics.set(&QUEUED_KEYS, [C::NAME], queue.depth());
        let due = queue.next_due().filter(|_| looks.len() < C::CONCURRENCY);
        tokio::select! {
            () = stop.cancelled() => break,
            () = inbox.marked() => {}
            Some(ended) = looks.join_next() => if let Ok((key, outcome)) = ended {
                queue.done(key, outcome, Instant::now());
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
    if timeout(STOP_GRACE, async { while looks.join_next().await.is_some() {} }).await.is_err() {
        tracing::warn!(controller = C::NAME, "stopped in the middle of its work");
    }
}

/// Looks at one key; never fails, so that the queue always hears of its end.
async fn look<C: Controller>(controller: Arc<C>, ctx: Ctx, key: Key) -> (Key, LookOutcome) {
    let Telemetry { metrics, health } = &ctx.telemetry;
    let begun = Instant::now();
    let _looking = health.look(C::NAME, &key, begun);
    let (outcome, word) = match AssertUnwindSafe(controller.reconcile(&ctx, &key)).catch_unwind().await {
        Ok(Ok(wait)) => (LookOutcome::Done(wait.map(|wait| wait.try_into().unwrap_or_default())), "done"),
        // Nothing can be made there any more, and what is there goes by itself.
        Ok(Err(error)) if is_namespace_terminating(&error) => (LookOutcome::Done(None), "done"),
        Ok(Err(error)) => (LookOutcome::Failed, report(C::NAME, &key, &error)),
        Err(_) => {
            tracing::error!(controller = C::NAME, %key, "panicked; this is a bug, please report it");
            (LookOutcome::Failed, "panicked")
        }
    };
    metrics.count(&RECONCILES, [C::NAME, word]);
    metrics.observe(&RECONCILE_SECONDS, [C::NAME], begun.elapsed());
    (key, outcome)
}

fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == "NamespaceTerminating")
}

/// Losing a race is part of the game; everything else a person may want to know. Returns the word for it.
fn report(controller: &str, key: &Key, error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if matches!(status.code, 404 | 409) => {
            tracing::debug!(controller, %key, reason = status.reason, message = status.message, "looks again");
            "conflict"
        }
        _ => {
            tracing::warn!(controller, %key, error = %Causes(error), "failed");
            "failed"
        }
    }
}
