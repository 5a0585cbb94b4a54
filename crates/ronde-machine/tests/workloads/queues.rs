//! Queues for tests, and somebody who lets groups in.

use std::time::Duration;

use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams},
};
use ronde_api::{PodGroup, PodGroupPhase, Queue};
use serde_json::json;
use tokio::task::JoinHandle;

/// Returns a queue.
pub fn queue(name: &str) -> Queue {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"weight": 1}})).expect("a queue")
}

/// Stands in for the scheduler: lets every group in, in its own time.
pub fn admit_all(client: &Client) -> JoinHandle<()> {
    let client = client.clone();
    tokio::spawn(async move {
        loop {
            // A group may change or go meanwhile: then it is let in the next time.
            drop(admit(&client).await);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
}

async fn admit(client: &Client) -> Result<(), kube::Error> {
    let all: Api<PodGroup> = Api::all(client.clone());
    for mut group in all.list(&ListParams::default()).await? {
        if matches!(group.phase(), None | Some(PodGroupPhase::Pending)) {
            group.status.get_or_insert_default().phase = Some(PodGroupPhase::Inqueue);
            let groups: Api<PodGroup> = Api::namespaced(client.clone(), &group.namespace().unwrap_or_default());
            groups.replace(&group.name_any(), &PostParams::default(), &group).await?;
        }
    }
    Ok(())
}
