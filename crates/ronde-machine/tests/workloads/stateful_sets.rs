//! Stories of stateful sets.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use ronde_machine::statefulset::pod::REVISION_LABEL;
use ronde_runtime::pods::{is_active, is_ready};
use serde_json::json;

use crate::{
    chance::Chance,
    cluster::{Cluster, eventually},
    node::{self, Habits},
};

fn set(policy: &str, replicas: u64) -> StatefulSet {
    let container = json!({"name": "c", "image": "x:0"});
    let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}});
    let storage = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let spec = json!({
        "replicas": replicas, "podManagementPolicy": policy, "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}}, "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": storage}],
    });
    serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": spec})).expect("a stateful set")
}

/// As `kubectl rollout status` sees it.
fn is_settled(set: &StatefulSet) -> bool {
    let (spec, status) = (set.spec.clone().unwrap_or_default(), set.status.clone().unwrap_or_default());
    let wanted = spec.replicas.unwrap_or(1);
    status.observed_generation >= set.metadata.generation
        && status.replicas == wanted
        && status.ready_replicas.unwrap_or(0) == wanted
        && status.updated_replicas.unwrap_or(0) == wanted
        && status.current_revision == status.update_revision
}

async fn story(seed: u64) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed);
    let mut cluster = Cluster::start(seed).await?;
    let sets: Api<StatefulSet> = Api::default_namespaced(cluster.client.clone());
    let is_ordered = chance.percent(70);
    let replicas = chance.between(1, 4);
    let mut most = replicas;
    let policy = if is_ordered { "OrderedReady" } else { "Parallel" };
    sets.create(&PostParams::default(), &set(policy, replicas)).await?;
    let check = move |pods: &[Pod]| {
        let starting = pods.iter().filter(|pod| is_active(pod) && !is_ready(pod)).count();
        let stopping = pods.iter().filter(|pod| !is_active(pod)).count();
        assert!(!is_ordered || starting <= 1, "seed {seed}: {starting} pods start at once");
        // One for an update and, if the set shrinks meanwhile, the last one, as in Kubernetes.
        assert!(!is_ordered || stopping <= 2, "seed {seed}: {stopping} pods stop at once");
    };
    let node = node::start(&cluster.client, &cluster.clock, seed, Habits::default(), Box::new(check)).await?;
    for _ in 0..chance.between(3, 6) {
        tokio::time::sleep(chance.time_up_to(Duration::from_secs(15))).await;
        let patch = if chance.percent(50) {
            let replicas = chance.between(0, 4);
            most = most.max(replicas);
            json!({"spec": {"replicas": replicas}})
        } else {
            let image = format!("x:{}", chance.between(0, 2));
            json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
        };
        sets.patch("db", &PatchParams::default(), &Patch::Strategic(patch)).await?;
        if chance.percent(50) {
            cluster.kill(&mut chance).await;
        }
    }
    eventually("the set settles", async || Ok(is_settled(&sets.get("db").await?))).await?;
    let db = sets.get("db").await?;
    let pods = Api::<Pod>::default_namespaced(cluster.client.clone()).list(&ListParams::default()).await?;
    let names: BTreeSet<String> = pods.iter().map(ResourceExt::name_any).collect();
    let wanted: BTreeSet<String> = (0..db.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0))
        .map(|number| format!("db-{number}"))
        .collect();
    assert_eq!(names, wanted, "seed {seed}");
    let revision = db.status.as_ref().and_then(|status| status.update_revision.clone());
    assert!(pods.iter().all(|pod| pod.labels().get(REVISION_LABEL) == revision.as_ref()), "seed {seed}");
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client.clone());
    let claims = claims.list(&ListParams::default()).await?.items.len();
    assert!(claims >= wanted.len() && claims as u64 <= most, "seed {seed}: {claims} claims for at most {most} pods");
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}

/// Each seed is another story.
mod pods_are_replaced_in_order_whatever_dies {
    crate::stories!(seed_0: 0, seed_1: 1, seed_2: 2, seed_3: 3);
}
