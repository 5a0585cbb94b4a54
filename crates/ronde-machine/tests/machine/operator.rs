//! An operator holds a lease while it works, stops when it loses it, and the next one goes on where it was.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{pending, ready},
};
use http::Method;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use ronde_api::Job;
use ronde_control::operator::{self, LEASE, OperatorError, OperatorEvent};
use ronde_runtime::telemetry::Telemetry;
use serde_json::json;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{Cluster, create, names, patch, within},
    kubelet,
};

const LONG: Duration = Duration::from_secs(60);

/// The way from an operator to the server: what has gone over it, and whether it is cut.
#[derive(Default)]
struct Line {
    is_cut: bool,
    /// When an operator last wrote something that is not its lease.
    last_write: Option<Instant>,
    first_write: Option<Instant>,
    requests: usize,
}

/// An operator that runs.
struct Operator {
    news: Arc<Mutex<Vec<String>>>,
    line: Arc<Mutex<Line>>,
    telemetry: Telemetry,
    stop: CancellationToken,
    task: JoinHandle<(Result<(), OperatorError>, Instant)>,
}

impl Operator {
    fn start(cluster: &Cluster, identity: &str) -> Self {
        let (news, line) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Line>>::default());
        let options = cluster.operator_options(cluster.client_with(over(line.clone())), identity);
        let telemetry = options.telemetry.clone();
        let told = news.clone();
        let tell = move |news: OperatorEvent<'_>| told.lock().push(format!("{news:?}"));
        let stop = CancellationToken::new();
        let run = operator::run(options, stop.clone(), tell);
        Self { news, line, telemetry, stop, task: tokio::spawn(async { (run.await, Instant::now()) }) }
    }

    /// Waits until it is at work; returns how long that took.
    async fn works(&self) -> anyhow::Result<Duration> {
        let look = || async { Ok(self.news.lock().contains(&"Works".to_owned()).then_some(())) };
        Ok(within("the operator is at work", LONG, look).await?.1)
    }

    async fn says(&self, wanted: &str) -> anyhow::Result<()> {
        let look = || async { Ok(self.news.lock().iter().any(|news| news == wanted).then_some(())) };
        within(wanted, LONG, look).await?;
        Ok(())
    }

    async fn waits(&self) -> anyhow::Result<()> {
        let look = || async { Ok((!self.news.lock().is_empty()).then_some(())) };
        within("the operator waits", LONG, look).await?;
        assert_eq!(*self.news.lock(), ["Waits { holder: \"first\" }"]);
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.telemetry.health.readiness(Instant::now()).iter().all(|check| check.state.is_ok())
    }

    /// Checks that its metrics have these lines.
    #[track_caller]
    fn tells(&self, lines: &[&str]) {
        let page = self.telemetry.metrics.render(ronde_control::metrics::of_operator());
        lines.iter().for_each(|line| assert!(page.lines().any(|told| told == *line), "{line} is missing:\n{page}"));
    }

    /// From now on no request gets through, and none is answered.
    fn cut(&self) {
        self.line.lock().is_cut = true;
    }
}

fn over(line: Arc<Mutex<Line>>) -> crate::cluster::Before {
    Arc::new(move |method: &Method, path: &str| {
        let mut line = line.lock();
        line.requests += 1;
        if line.is_cut {
            return pending().boxed();
        }
        if *method != Method::GET && !path.contains("/leases") {
            line.last_write = Some(Instant::now());
            line.first_write = line.first_write.or(line.last_write);
        }
        ready(()).boxed()
    })
}

/// Makes a node and a job of two pods, and waits until both run.
async fn job_that_runs(cluster: &Cluster) -> anyhow::Result<JoinHandle<()>> {
    let node = kubelet::start(cluster, "n1", json!({"cpu": "2"})).await?;
    let container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    let task = json!({"name": "work", "replicas": 2, "template": template});
    let spec = json!({"minAvailable": 2, "schedulerName": "volcano", "queue": "default", "tasks": [task]});
    create(&cluster.api::<Job>(), json!({"metadata": {"name": "train"}, "spec": spec})).await?;
    wait_for_phase(cluster, "Running").await?;
    Ok(node)
}

async fn wait_for_phase(cluster: &Cluster, wanted: &str) -> anyhow::Result<()> {
    let look = || async {
        let job = cluster.api::<Job>().get("train").await?;
        let phase = job.status.unwrap_or_default().state.phase.map(|phase| phase.to_string());
        Ok((phase.as_deref() == Some(wanted)).then_some(()))
    };
    within(&format!("the job is {wanted}"), LONG, look).await?;
    Ok(())
}

async fn succeed(cluster: &Cluster) -> anyhow::Result<()> {
    let pods: Api<Pod> = cluster.api();
    for name in names(&pods).await? {
        let done = Patch::Strategic(json!({"status": {"phase": "Succeeded"}}));
        pods.patch_status(&name, &PatchParams::default(), &done).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_has_lost_the_lease_stands_by() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let operator = Operator::start(&cluster, "first");
    operator.works().await?;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), LEASE.0);
    patch(&leases, LEASE.1, json!({"spec": {"holderIdentity": "thief"}})).await?;
    operator.says("Waits { holder: \"thief\" }").await?;
    assert_eq!(*operator.news.lock(), ["Works", "Lost", "Waits { holder: \"thief\" }"]);
    let lease = leases.get(LEASE.1).await?.spec.and_then(|spec| spec.holder_identity);
    assert_eq!(lease.as_deref(), Some("thief"), "what is another's is not given up");
    // The thief is not heard of again.
    operator.news.lock().clear();
    operator.works().await?;
    operator.stop.cancel();
    operator.task.await?.0?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_is_cut_off_has_stopped_before_the_next_begins() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let first = Operator::start(&cluster, "first");
    first.works().await?;
    let second = Operator::start(&cluster, "second");
    second.waits().await?;
    let node = job_that_runs(&cluster).await?;
    // It now has work to do, none of which is ever answered.
    first.cut();
    succeed(&cluster).await?;
    let took = second.works().await?;
    assert!(Duration::from_secs(12) < took && took < Duration::from_secs(20), "{took:?}");
    assert_eq!(first.news.lock().last().map(String::as_str), Some("Lost"), "no unanswered request keeps it");
    wait_for_phase(&cluster, "Completed").await?;
    assert!(first.line.lock().last_write < second.line.lock().first_write, "never two at once");
    // The line is mended: it stands by, and has its turn again.
    first.line.lock().is_cut = false;
    first.says("Waits { holder: \"second\" }").await?;
    second.stop.cancel();
    second.task.await?.0?;
    first.news.lock().clear();
    first.works().await?;
    node.abort();
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_is_stopped_makes_way_at_once() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let first = Operator::start(&cluster, "first");
    first.works().await?;
    let second = Operator::start(&cluster, "second");
    second.waits().await?;
    let node = job_that_runs(&cluster).await?;
    assert!(first.is_ready() && second.is_ready(), "one that stands by is ready, too");
    first.tells(&["ronde_operator_active 1", "ronde_scheduler_pod_placement_seconds_count 2"]);
    first.tells(&["ronde_scheduler_steps_total{step=\"bind\",outcome=\"done\"} 2"]);
    second.tells(&["ronde_operator_active 0"]);
    first.stop.cancel();
    let (ended, _) = first.task.await?;
    ended?;
    let took = second.works().await?;
    assert!(took < Duration::from_secs(1), "the lease was given up: {took:?}");
    let pods = names(&cluster.api::<Pod>()).await?;
    succeed(&cluster).await?;
    wait_for_phase(&cluster, "Completed").await?;
    assert_eq!(names(&cluster.api::<Pod>()).await?, pods, "no pod was made anew");
    node.abort();
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_leaves_nothing_running() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let operator = Operator::start(&cluster, "first");
    operator.works().await?;
    let node = job_that_runs(&cluster).await?;
    operator.task.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let requests = operator.line.lock().requests;
    succeed(&cluster).await?;
    tokio::time::sleep(LONG).await;
    assert_eq!(operator.line.lock().requests, requests, "somebody still asks");
    node.abort();
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_its_own_cluster_refuses_operators() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    cluster.control().await?.stop().await;
    let begun = Instant::now();
    let again = cluster.control().await?;
    assert!(begun.elapsed() < Duration::from_secs(1), "it does not wait for itself");
    let (ended, _) = Operator::start(&cluster, "first").task.await?;
    assert!(matches!(ended, Err(OperatorError::Machine)), "{ended:?}");
    again.stop().await;
    // Started again without nodes, it leaves everything to an operator.
    operator::let_in(&cluster.client, &cluster.clock).await;
    let operator = Operator::start(&cluster, "first");
    operator.works().await?;
    operator.task.abort();
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_machine_waits_until_an_operator_has_ended_for_sure() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let operator = Operator::start(&cluster, "first");
    operator.works().await?;
    operator.cut();
    let machine = cluster.control().await?;
    operator.says("Lost").await?;
    operator.task.abort();
    machine.stop().await;
    cluster.stop().await;
    Ok(())
}
