//! A cluster of one process: the API server, the controllers of a machine, and short words for what users do.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt as _, Stream, StreamExt as _,
    future::{BoxFuture, pending, ready},
    stream,
};
use http::Method;
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use jiff::Timestamp;
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Event};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use ronde_apiserver::{Apiserver, clock_and_ids::ClockAndIds};
use ronde_control::{
    elastic::pod::AgentSettings, install::Definitions, jobflow::probe::PodDialer, operator, scheduling::Scheduler,
    ssh_keys::KeySource,
};
use ronde_machine::volumeclaims::VolumeClaims;
use ronde_runtime::{
    lease,
    runner::{Clock, Runner},
    telemetry::Telemetry,
    watch::Cached,
};
use serde_json::Value;
use tokio::{
    sync::broadcast,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt as _, service_fn};

pub const ROOT: &str = "/data/volumes";
/// What happens in this time after a watch was cut is never told by it.
const GAP: Duration = Duration::from_millis(100);
const TOO_OLD: &str = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\
    \"message\":\"too old resource version: 1 (2)\",\"reason\":\"Expired\",\"code\":410}}\n";

/// What comes before a request with this method and path; a request that it keeps waiting is never sent.
pub type Before = Arc<dyn Fn(&Method, &str) -> BoxFuture<'static, ()> + Send + Sync>;

pub struct Cluster {
    pub client: Client,
    pub clock: Clock,
    /// The directories that were removed.
    pub removed: Arc<Mutex<Vec<PathBuf>>>,
    /// How many requests the controllers have sent.
    pub requests: Arc<AtomicUsize>,
    /// The kinds, as in paths, whose watches lose touch: they tell nothing more, and then that they are too old.
    pub cuts: broadcast::Sender<&'static str>,
    server: Apiserver,
}

/// Controllers that run until they are stopped.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub fn start(runner: Runner) -> Self {
        let stop = CancellationToken::new();
        Self { task: tokio::spawn(runner.run(stop.clone())), stop }
    }

    /// Ends them where they are.
    pub fn kill(self) {
        self.task.abort();
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the runner does not panic");
    }
}

impl Cluster {
    pub async fn start() -> anyhow::Result<Self> {
        let start = Instant::now();
        let epoch = Timestamp::from_second(1_800_000_000)?;
        let now = move || epoch + start.elapsed();
        let counter = AtomicUsize::new(0);
        let random = move || {
            (counter.fetch_add(1, Ordering::Relaxed) as u128 + 1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
        };
        let server = Apiserver::in_memory(ClockAndIds::new(now, random)).await?;
        let client = Client::new(server.router(), "default");
        let (removed, requests, cuts) = (Arc::default(), Arc::default(), broadcast::Sender::new(16));
        Ok(Self { client, clock: Clock::new(now), removed, requests, cuts, server })
    }

    /// Starts the controllers of a machine.
    pub async fn control(&self) -> anyhow::Result<Running> {
        self.control_with(Arc::new(|_, _| ready(()).boxed())).await
    }

    /// Starts the controllers of a machine, with something that comes before each of their requests.
    pub async fn control_with(&self, before: Before) -> anyhow::Result<Running> {
        let removed = self.removed.clone();
        let remove = move |path: &Path| {
            removed.lock().push(path.to_owned());
            Ok(())
        };
        let requests = self.requests.clone();
        let counted: Before = Arc::new(move |method, path| {
            requests.fetch_add(1, Ordering::Relaxed);
            before(method, path)
        });
        let options = ronde_machine::Options {
            client: self.client_with(counted),
            clock: self.clock.clone(),
            volumes: VolumeClaims { root: PathBuf::from(ROOT), remove: Arc::new(remove) },
            keys: KeySource::real(),
            agent: AgentSettings::default(),
            dialer: PodDialer::direct(),
            scheduler: Scheduler::for_machine(),
            telemetry: Telemetry::default(),
        };
        Ok(Running::start(ronde_machine::runner(options).await?))
    }

    /// Starts what an operator runs, without the controllers of a machine.
    pub async fn operate(&self) -> anyhow::Result<Running> {
        let options = self.operator_options(self.client.clone(), "test");
        Ok(Running::start(operator::runner(&options, self.client.clone(), |_| {}).await?))
    }

    /// Returns how an operator is to run that uses this client.
    pub fn operator_options(&self, client: Client, identity: &str) -> operator::Options {
        operator::Options {
            client: client.clone(),
            connect: Arc::new(move |_| Ok(client.clone())),
            telemetry: Telemetry::default(),
            lease_duration: lease::DURATION,
            clock: self.clock.clone(),
            keys: KeySource::real(),
            agent: AgentSettings::default(),
            scheduler: Scheduler::for_cluster(),
            definitions: Definitions::Install,
            identity: identity.to_owned(),
        }
    }

    /// Makes a client with something that comes before each of its requests.
    pub fn client_with(&self, before: Before) -> Client {
        let (router, cuts) = (self.server.router(), self.cuts.clone());
        let service = service_fn(move |request: http::Request<kube::client::Body>| {
            let first = before(request.method(), request.uri().path());
            let (router, cut) = (router.clone(), cut(&request, &cuts));
            async move {
                first.await;
                let answer = router.oneshot(request).await?;
                Ok::<_, Infallible>(answer.map(|body| StreamBody::new(until(cut, body))))
            }
        });
        Client::new(service, "default")
    }

    pub fn api<K: Cached + Resource<Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::default_namespaced(self.client.clone())
    }

    pub fn all<K: Cached>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    pub async fn events(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let events = self.all::<Event>().list(&ListParams::default()).await?;
        let about = events.items.iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
        let shown = about.map(|event| {
            format!("{} {}", event.reason.as_deref().unwrap_or_default(), event.message.as_deref().unwrap_or_default())
        });
        Ok(shown.collect())
    }

    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// Waits until the answer to a request is cut, if it is a watch.
fn cut<B>(request: &http::Request<B>, cuts: &broadcast::Sender<&'static str>) -> BoxFuture<'static, ()> {
    if !request.uri().query().is_some_and(|query| query.contains("watch=")) {
        return pending().boxed();
    }
    let (path, mut cuts) = (request.uri().path().to_owned(), cuts.subscribe());
    async move {
        while let Ok(kind) = cuts.recv().await {
            if path.ends_with(kind) {
                return;
            }
        }
        pending::<()>().await;
    }
    .boxed()
}

/// Passes an answer on until it is cut.
fn until<B: http_body::Body<Data: From<&'static str>> + Unpin>(
    cut: BoxFuture<'static, ()>,
    body: B,
) -> impl Stream<Item = Result<Frame<B::Data>, B::Error>> {
    stream::unfold(Some((BodyStream::new(body), cut)), |open| async {
        let (mut body, mut cut) = open?;
        tokio::select! {
            biased;
            () = &mut cut => {
                sleep(GAP).await;
                Some((Ok(Frame::data(TOO_OLD.into())), None))
            }
            frame = body.next() => Some((frame?, Some((body, cut)))),
        }
    })
}

pub async fn create<K: Cached + serde::Serialize>(api: &Api<K>, value: Value) -> anyhow::Result<K> {
    Ok(api.create(&PostParams::default(), &serde_json::from_value(value)?).await?)
}

pub async fn patch<K: Cached>(api: &Api<K>, name: &str, patch: Value) -> anyhow::Result<K> {
    Ok(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
}

pub async fn patch_status<K: Cached>(api: &Api<K>, name: &str, status: Value) -> anyhow::Result<K> {
    let patch = serde_json::json!({"status": status});
    Ok(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
}

pub async fn delete<K: Cached>(api: &Api<K>, name: &str) -> anyhow::Result<()> {
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

pub async fn names<K: Cached>(api: &Api<K>) -> anyhow::Result<Vec<String>> {
    Ok(api.list(&ListParams::default()).await?.iter().map(kube::ResourceExt::name_any).collect())
}

/// Waits until `look` finds something; returns how long that took in simulated time.
pub async fn within<T, F>(what: &str, limit: Duration, mut look: impl FnMut() -> F) -> anyhow::Result<(T, Duration)>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let start = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok((found, start.elapsed()));
        }
        anyhow::ensure!(start.elapsed() < limit, "did not happen in {limit:?}: {what}");
        // Coarser the longer it takes: a look costs real time.
        tokio::time::sleep((start.elapsed() / 20).clamp(Duration::from_millis(10), Duration::from_secs(1))).await;
    }
}
