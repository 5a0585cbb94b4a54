//! Claims get directories, and give them back.

use std::{path::PathBuf, time::Duration};

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::json;

use crate::{
    cluster::{Cluster, ROOT, create, delete, names, patch_status, within},
    endpoints::pod,
    kubelet,
};

const SOON: Duration = Duration::from_secs(30);

async fn phase(claims: &Api<PersistentVolumeClaim>, wanted: &str) -> anyhow::Result<Option<PersistentVolumeClaim>> {
    let claim = claims.get("data").await?;
    let phase = claim.status.as_ref().and_then(|status| status.phase.clone());
    Ok(Some(claim).filter(|_| phase.as_deref() == Some(wanted)))
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_a_directory_that_lives_as_long_as_it() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let running = cluster.control().await?;
    let kubelet = kubelet::start(&cluster, "n1", json!({})).await?;
    assert_eq!(names(&cluster.all::<StorageClass>()).await?, ["ronde"]);
    let (claims, volumes) = (cluster.api::<PersistentVolumeClaim>(), cluster.all::<PersistentVolume>());
    let volume = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
    create(&cluster.api::<Pod>(), pod("user", volume)).await?;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    create(&claims, claim).await?;
    let (bound, took) = within("the claim is bound", SOON, || phase(&claims, "Bound")).await?;
    assert!(took < Duration::from_secs(1), "at once, not after {took:?}");
    let name = bound.spec.and_then(|spec| spec.volume_name).expect("it has a volume");
    let spec = volumes.get(&name).await?.spec.expect("a spec");
    assert_eq!(PathBuf::from(spec.host_path.expect("a directory").path), PathBuf::from(ROOT).join(&name));
    let placed = || async { Ok(cluster.api::<Pod>().get("user").await?.status.and_then(|status| status.pod_ip)) };
    within("the pod that waited for it runs", SOON, placed).await?;
    delete(&claims, "data").await?;
    tokio::time::sleep(SOON).await;
    assert!(claims.get("data").await?.metadata.deletion_timestamp.is_some(), "it is in use, so it stays");
    delete(&cluster.api::<Pod>(), "user").await?;
    let gone = || async { Ok((names(&claims).await?.is_empty() && names(&volumes).await?.is_empty()).then_some(())) };
    within("claim and volume are gone", SOON, gone).await?;
    assert_eq!(*cluster.removed.lock(), [PathBuf::from(ROOT).join(&name)]);
    kubelet.abort();
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_pod_goes_where_a_volume_for_it_exists() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let running = cluster.operate().await?;
    let kubelets = [kubelet::start(&cluster, "n1", json!({})).await?, kubelet::start(&cluster, "n2", json!({})).await?];
    let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"});
    create(&cluster.all::<StorageClass>(), class).await?;
    let claims = cluster.api::<PersistentVolumeClaim>();
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}}});
    let uid = create(&claims, claim).await?.uid();
    let used = json!({"schedulerName": "volcano",
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
    create(&cluster.api::<Pod>(), pod("user", used)).await?;
    let why = "FailedScheduling claim `data` waits for a volume: no free volume matches, and none can be provisioned";
    let told = || async { Ok(cluster.events("user").await?.contains(&why.to_owned()).then_some(())) };
    within("it says what it waits for", SOON, told).await?;
    let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]});
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "local": {"path": "/srv"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}}});
    let volumes = cluster.all::<PersistentVolume>();
    create(&volumes, volume).await?;
    patch_status(&volumes, "disk", json!({"phase": "Available"})).await?;
    let placed = || async { Ok(cluster.api::<Pod>().get("user").await?.spec.and_then(|spec| spec.node_name)) };
    assert_eq!(within("the pod is placed", SOON, placed).await?.0, "n2");
    let taken = volumes.get("disk").await?.spec.and_then(|spec| spec.claim_ref);
    assert_eq!(taken.and_then(|claim| claim.uid), uid, "and nobody else can have the volume");
    kubelets.iter().for_each(tokio::task::JoinHandle::abort);
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_exists_is_taken_and_kept() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let running = cluster.control().await?;
    let (claims, volumes) = (cluster.api::<PersistentVolumeClaim>(), cluster.all::<PersistentVolume>());
    let volume = |name: &str, size: &str| {
        json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/srv"}, "storageClassName": "disk"}})
    };
    create(&volumes, volume("large", "100Gi")).await?;
    create(&volumes, volume("small", "2Gi")).await?;
    let free = || async {
        let phases = volumes.list(&ListParams::default()).await?.items.into_iter().map(|volume| volume.status?.phase);
        Ok(phases.into_iter().all(|phase| phase.as_deref() == Some("Available")).then_some(()))
    };
    within("both volumes are free", SOON, free).await?;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}});
    create(&claims, claim).await?;
    let (bound, _) = within("the claim is bound", SOON, || phase(&claims, "Bound")).await?;
    assert_eq!(bound.spec.and_then(|spec| spec.volume_name).as_deref(), Some("small"));
    delete(&claims, "data").await?;
    let released = || async {
        let phase = volumes.get("small").await?.status.and_then(|status| status.phase);
        Ok((phase.as_deref() == Some("Released")).then_some(()))
    };
    within("the volume is released", SOON, released).await?;
    tokio::time::sleep(SOON).await;
    assert_eq!(volumes.get("small").await?.name_any(), "small", "and kept");
    assert!(cluster.removed.lock().is_empty());
    running.stop().await;
    cluster.stop().await;
    Ok(())
}
