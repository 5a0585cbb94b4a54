//! The images that a node says it has: those of the store, kept up to date in its status.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerImage, Node};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use ronde_images::{Image, Store};
use tokio_util::sync::CancellationToken;

/// Images come and go by hand; nobody waits for the list.
const LOOK: Duration = Duration::from_secs(10);
/// As the kubelet: the list is for people and for preferences of schedulers.
const LISTED_MAX: usize = 50;

/// Publishes the stored images whenever they have changed, until `stop`.
pub async fn keep(client: Client, names: Vec<String>, store: Store, stop: CancellationToken) {
    let mut told = Vec::new();
    let mut pace = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = pace.tick() => {}
        }
        let reader = store.clone();
        let Ok(Ok(images)) = tokio::task::spawn_blocking(move || reader.list()).await else { continue };
        let images: Vec<ContainerImage> = images.iter().take(LISTED_MAX).map(describe).collect();
        if images != told && publish(&client, &names, &images).await.is_ok() {
            told = images;
        }
    }
}

async fn publish(client: &Client, names: &[String], images: &[ContainerImage]) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(serde_json::json!({"status": {"images": images}}));
    for name in names {
        nodes.patch_status(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

fn describe(image: &Image) -> ContainerImage {
    let by_digest = image.names.first().map(|name| format!("{}@{}", name.name(), image.digest));
    let names = by_digest.into_iter().chain(image.names.iter().map(ToString::to_string)).collect();
    ContainerImage { names: Some(names), size_bytes: i64::try_from(image.size()).ok() }
}
