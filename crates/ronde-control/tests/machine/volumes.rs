//! Claims get directories, and give them back.

use std::{path::PathBuf, time::Duration};

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::json;

use crate::{
    cluster::{Cluster, ROOT, create, delete, names, within},
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
