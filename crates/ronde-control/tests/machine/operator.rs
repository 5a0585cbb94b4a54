//! An operator holds a lease while it works, and stops when it loses it.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use parking_lot::Mutex;
use ronde_control::{
    operator::{self, LEASE, News, OperatorError, Options},
    scheduling::Scheduler,
    vcjob::objects::KeySource,
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, patch, within};

const LONG: Duration = Duration::from_secs(60);

/// An operator that runs.
struct Operator {
    news: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<Result<(), OperatorError>>,
}

impl Operator {
    fn start(cluster: &Cluster, identity: &str) -> Self {
        let options = Options {
            client: cluster.client.clone(),
            clock: cluster.clock.clone(),
            keys: KeySource::real(),
            scheduler: Scheduler::for_cluster(),
            identity: identity.to_owned(),
        };
        let news = Arc::<Mutex<Vec<String>>>::default();
        let told = news.clone();
        let tell = move |news: News<'_>| told.lock().push(format!("{news:?}"));
        let task = tokio::spawn(operator::run(options, CancellationToken::new(), tell));
        Self { news, task }
    }

    /// Waits until it is at work; returns how long that took.
    async fn works(&self) -> anyhow::Result<Duration> {
        let look = || async { Ok(self.news.lock().contains(&"Works".to_owned()).then_some(())) };
        Ok(within("the operator is at work", LONG, look).await?.1)
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_has_lost_the_lease_stops() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let operator = Operator::start(&cluster, "first");
    operator.works().await?;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), LEASE.0);
    patch(&leases, LEASE.1, json!({"spec": {"holderIdentity": "thief"}})).await?;
    let ended = operator.task.await?;
    assert!(matches!(ended, Err(OperatorError::Lost)), "{ended:?}");
    let lease = leases.get(LEASE.1).await?.spec.and_then(|spec| spec.holder_identity);
    assert_eq!(lease.as_deref(), Some("thief"), "what is another's is not given up");
    cluster.stop().await;
    Ok(())
}
