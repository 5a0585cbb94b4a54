//! What jobs own beside their pods comes back when somebody deletes it, although nothing else happens to the job.

use std::time::Duration;

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{ConfigMap, Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        rbac::v1::{Role, RoleBinding},
    },
};
use kube::{
    Resource, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use ronde_api::{Job, JobPhase, PodGroup, TrainingJob, TrainingJobPhase};
use ronde_runtime::watch::Cached;
use serde_json::json;

use crate::{
    cluster::{Cluster, create, within},
    kubelet,
};

const SOON: Duration = Duration::from_secs(60);

/// Deletes everything of a kind that belongs to a job, and waits until as much is there again.
async fn comes_back<K: Cached + Resource<Scope = NamespaceResourceScope>>(
    cluster: &Cluster,
    uid: &str,
) -> anyhow::Result<()> {
    let objects = cluster.api::<K>();
    let owned = async || {
        let mut items = objects.list(&ListParams::default()).await?.items;
        items.retain(|object| object.owner_references().iter().any(|owner| owner.uid == uid));
        anyhow::Ok(items)
    };
    let before = owned().await?;
    anyhow::ensure!(!before.is_empty(), "there is no {}", K::kind(&()));
    for object in &before {
        objects.delete(&object.name_any(), &DeleteParams::default()).await?;
    }
    let names = |objects: &[K]| objects.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>();
    let again = || async {
        let now = owned().await?;
        let is_new = now.iter().all(|object| before.iter().all(|old| old.uid() != object.uid()));
        Ok((is_new && names(&now) == names(&before)).then_some(()))
    };
    within(&format!("every {} is there again", K::kind(&())), SOON, again).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_job_of_volcano_owns_comes_back() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let node = kubelet::start(&cluster, "n1", json!({})).await?;
    let running = cluster.control().await?;
    let template = json!({"spec": {"containers": [{"name": "c", "image": "x"}]}});
    let spec = json!({
        "plugins": {"svc": [], "ssh": [], "env": []},
        "tasks": [{"name": "w", "replicas": 2, "template": template}],
    });
    create(&cluster.api::<Job>(), json!({"metadata": {"name": "lm"}, "spec": spec})).await?;
    let runs = || async {
        let job = cluster.api::<Job>().get("lm").await?;
        let phase = job.status.as_ref().and_then(|status| status.state.phase);
        Ok(job.uid().filter(|_| phase == Some(JobPhase::Running)))
    };
    let (uid, _) = within("it runs", SOON, runs).await?;
    comes_back::<ConfigMap>(&cluster, &uid).await?;
    comes_back::<Secret>(&cluster, &uid).await?;
    comes_back::<Service>(&cluster, &uid).await?;
    comes_back::<NetworkPolicy>(&cluster, &uid).await?;
    comes_back::<PodGroup>(&cluster, &uid).await?;
    running.stop().await;
    node.abort();
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_training_job_owns_comes_back() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let node = kubelet::start(&cluster, "n1", json!({})).await?;
    let running = cluster.control().await?;
    let template = json!({"spec": {"containers": [{"name": "et", "image": "x", "command": ["train"]}]}});
    let specs = json!({"launcher": {"template": template}, "worker": {"replicas": 2, "template": template}});
    let job = json!({"metadata": {"name": "lm"}, "spec": {"etReplicaSpecs": specs}});
    create(&cluster.api::<TrainingJob>(), job).await?;
    let runs = || async {
        let job = cluster.api::<TrainingJob>().get("lm").await?;
        Ok(job.uid().filter(|_| job.phase() == Some(TrainingJobPhase::Running)))
    };
    let (uid, _) = within("it runs", SOON, runs).await?;
    comes_back::<ConfigMap>(&cluster, &uid).await?;
    comes_back::<Secret>(&cluster, &uid).await?;
    comes_back::<Service>(&cluster, &uid).await?;
    comes_back::<ServiceAccount>(&cluster, &uid).await?;
    comes_back::<Role>(&cluster, &uid).await?;
    comes_back::<RoleBinding>(&cluster, &uid).await?;
    comes_back::<PodGroup>(&cluster, &uid).await?;
    running.stop().await;
    node.abort();
    cluster.stop().await;
    Ok(())
}
