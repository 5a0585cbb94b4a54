//! A cluster of one process: the API server, and controllers that can be killed between any two requests.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt as _, future::pending};
use http::Request;
use http_body_util::{BodyStream, StreamBody};
use jiff::Timestamp;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use ronde_apiserver::{Apiserver, admission::Admission, clock_and_ids::ClockAndIds};
use ronde_control::{
    batch::{self, Surroundings},
    elastic::pod::AgentSettings,
    install,
    jobflow::probe::PodDialer,
    scheduling::Scheduler,
    ssh_keys::{KeyPair, KeySource},
};
use ronde_machine::{
    admission::OwnKinds,
    deployment::Deployments,
    job::{Jobs, ttl::TtlAfterFinished},
    replicaset::ReplicaSets,
    statefulset::StatefulSets,
};
use ronde_runtime::{
    pods::orphans::Orphans,
    runner::{Clock, Runner},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt as _, service_fn};

use crate::chance::Chance;

/// Long enough for several writes.
const LAG_MAX: Duration = Duration::from_millis(600);
/// Controllers that have nothing to do are killed after this time.
const KILL_SECONDS_MAX: usize = 30;

pub struct Cluster {
    /// For users and the node: it always works.
    pub client: Client,
    pub clock: Clock,
    server: Apiserver,
    running: Running,
    controllers: Controllers,
}

/// Which controllers a cluster has.
#[derive(Debug, Clone, Copy)]
enum Controllers {
    Workloads,
    Batch,
}

impl Controllers {
    fn add(self, runner: &mut Runner) {
        match self {
            Self::Workloads => {
                let sets = runner.add(ReplicaSets).add(Deployments).add(StatefulSets);
                sets.add(Jobs).add(Orphans::<Jobs>::default()).add(TtlAfterFinished);
            }
            Self::Batch => {
                let (keys, agent, dialer) = (numbered_keys(), AgentSettings::default(), PodDialer::direct());
                let surroundings = Surroundings { keys, agent, dialer };
                batch::add_controllers(runner, surroundings, &Scheduler::for_cluster());
            }
        }
    }
}

/// Keys that are all different; to make real ones is another test's business.
fn numbered_keys() -> KeySource {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    KeySource::new(|| {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Ok(KeyPair { private: format!("private {number}"), public: format!("public {number}") })
    })
}

/// Controllers that run.
struct Running {
    stop: CancellationToken,
    /// How many more requests they may send; then they are as good as dead.
    fuse: Arc<AtomicI64>,
    requests: Arc<AtomicUsize>,
}

impl Cluster {
    /// Starts a cluster with the workload controllers of Kubernetes.
    pub async fn start(seed: u64) -> anyhow::Result<Self> {
        let (server, clock) = serve(Vec::new()).await?;
        Ok(Self::on(server, clock, seed, Controllers::Workloads))
    }

    /// Starts a cluster with the controllers of batch work and their kinds; one in two has no rules for these but
    /// what their definitions say, as a real cluster.
    pub async fn start_batch(seed: u64) -> anyhow::Result<Self> {
        let rules: Arc<dyn Admission> = Arc::new(<OwnKinds as Default>::default());
        let rules = (seed % 2 == 1).then_some(rules);
        let (server, clock) = serve(rules.into_iter().collect()).await?;
        install::ensure(&Client::new(server.router(), "default")).await?;
        Ok(Self::on(server, clock, seed, Controllers::Batch))
    }

    fn on(server: Apiserver, clock: Clock, seed: u64, controllers: Controllers) -> Self {
        let client = Client::new(server.router(), "default");
        let running = run(&server, clock.clone(), Chance::new(seed), controllers);
        Self { client, clock, server, running, controllers }
    }

    /// Returns how many requests the controllers have sent since they were started.
    pub fn requests(&self) -> usize {
        self.running.requests.load(Ordering::Relaxed)
    }

    /// Kills the controllers in the middle of their next work, if there is some, and starts new ones.
    pub async fn kill(&mut self, chance: &mut Chance) {
        let requests = chance.between(0, 6);
        self.running.fuse.store(i64::try_from(requests).expect("a small number"), Ordering::Relaxed);
        for _ in 0..KILL_SECONDS_MAX {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if self.running.fuse.load(Ordering::Relaxed) < 0 {
                break;
            }
        }
        self.running.fuse.store(0, Ordering::Relaxed);
        self.running.stop.cancel();
        self.running = run(&self.server, self.clock.clone(), chance.clone(), self.controllers);
    }

    pub async fn stop(self) {
        self.running.stop.cancel();
        self.server.stop().await;
    }
}

async fn serve(admission: Vec<Arc<dyn Admission>>) -> anyhow::Result<(Apiserver, Clock)> {
    let start = Instant::now();
    let epoch = Timestamp::from_second(1_800_000_000)?;
    let now = move || epoch + start.elapsed();
    let counter = AtomicUsize::new(0);
    let random = move || {
        (counter.fetch_add(1, Ordering::Relaxed) as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
    };
    let server = Apiserver::in_memory_with(ClockAndIds::new(now, random), admission).await?;
    Ok((server, Clock::new(now)))
}

fn run(server: &Apiserver, clock: Clock, chance: Chance, controllers: Controllers) -> Running {
    let (stop, fuse) = (CancellationToken::new(), Arc::new(AtomicI64::new(i64::MAX)));
    let requests = Arc::new(AtomicUsize::new(0));
    let router = server.router();
    let chance = Arc::new(Mutex::new(chance));
    let service = {
        let (fuse, requests) = (fuse.clone(), requests.clone());
        service_fn(move |request: Request<Body>| {
            let (router, fuse, requests) = (router.clone(), fuse.clone(), requests.clone());
            let lag = request.uri().query().is_some_and(|query| query.contains("watch=")).then(|| chance.clone());
            async move {
                if fuse.fetch_sub(1, Ordering::Relaxed) <= 0 {
                    return pending().await;
                }
                requests.fetch_add(1, Ordering::Relaxed);
                let answer = router.oneshot(request).await?;
                Ok::<_, Infallible>(answer.map(|body| StreamBody::new(late(body, lag))))
            }
        })
    };
    let mut runner = Runner::new(Client::new(service, "default"), clock);
    controllers.add(&mut runner);
    tokio::spawn(runner.run(stop.clone()));
    Running { stop, fuse, requests }
}

/// Lets the events of a watch come late, each kind in its own time: caches are never quite up to date.
fn late<B: http_body::Body>(
    body: B,
    lag: Option<Arc<Mutex<Chance>>>,
) -> impl Stream<Item = Result<http_body::Frame<B::Data>, B::Error>> {
    BodyStream::new(body).then(move |frame| {
        let lag = lag.as_ref().map(|chance| chance.lock().time_up_to(LAG_MAX));
        async move {
            if let Some(lag) = lag {
                tokio::time::sleep(lag).await;
            }
            frame
        }
    })
}

/// Waits until a condition holds, for an hour of simulated time if need be.
pub async fn eventually<F>(what: &str, mut condition: impl FnMut() -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<bool>>,
{
    let start = Instant::now();
    while !condition().await? {
        anyhow::ensure!(start.elapsed() < Duration::from_secs(3600), "never happened: {what}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}
