//! Stories of queues, and of plain pods that get a group.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use ronde_api::{Command, Job, PodGroup, Queue, QueueState};
use serde_json::json;

use crate::{
    cluster::{Cluster, eventually},
    queues::queue,
};

async fn command(cluster: &Cluster, action: &str, name: &str) -> anyhow::Result<()> {
    command_to(cluster, action, name, "").await
}

async fn command_to(cluster: &Cluster, action: &str, name: &str, uid: &str) -> anyhow::Result<()> {
    let target = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": name, "uid": uid});
    let meta = json!({"generateName": format!("{name}-")});
    let command: Command = serde_json::from_value(json!({"metadata": meta, "action": action, "target": target}))?;
    Api::<Command>::default_namespaced(cluster.client.clone()).create(&PostParams::default(), &command).await?;
    Ok(())
}

async fn become_state(queues: &Api<Queue>, name: &str, state: QueueState) -> anyhow::Result<()> {
    let is_so = async || Ok(queues.get(name).await?.status.and_then(|status| status.state) == Some(state));
    eventually(&format!("{name} is {state}"), is_so).await
}

#[tokio::test(start_paused = true)]
async fn a_queue_closes_when_its_groups_have_gone_and_those_below_follow() -> anyhow::Result<()> {
    let cluster = Cluster::start_batch(1).await?;
    let queues: Api<Queue> = Api::all(cluster.client.clone());
    queues.create(&PostParams::default(), &queue("team")).await?;
    let mut below = queue("team-a");
    below.spec.parent = "team".to_owned();
    queues.create(&PostParams::default(), &below).await?;
    let groups: Api<PodGroup> = Api::default_namespaced(cluster.client.clone());
    let group = json!({"metadata": {"name": "g"}, "spec": {"queue": "team-a", "minMember": 1}});
    groups.create(&PostParams::default(), &serde_json::from_value(group)?).await?;
    eventually("it is below the root", async || Ok(queues.get("team").await?.spec.parent == "root")).await?;
    become_state(&queues, "team-a", QueueState::Open).await?;
    command(&cluster, "CloseQueue", "team").await?;
    become_state(&queues, "team", QueueState::Closed).await?;
    become_state(&queues, "team-a", QueueState::Closing).await?;
    groups.delete("g", &DeleteParams::default()).await?;
    become_state(&queues, "team-a", QueueState::Closed).await?;
    command(&cluster, "OpenQueue", "team").await?;
    become_state(&queues, "team-a", QueueState::Open).await?;
    let is_unmarked = async || Ok(queues.get("team-a").await?.annotations().is_empty());
    eventually("nothing is left of it", is_unmarked).await?;
    let commands: Api<Command> = Api::default_namespaced(cluster.client.clone());
    assert!(commands.list(&ListParams::default()).await?.items.is_empty());
    cluster.stop().await;
    Ok(())
}

/// As on a cluster, where nobody is asked before a deletion begins.
#[tokio::test(start_paused = true)]
async fn a_queue_that_is_deleted_stays_until_nothing_is_in_it() -> anyhow::Result<()> {
    let cluster = Cluster::start_batch(2).await?;
    let queues: Api<Queue> = Api::all(cluster.client.clone());
    for name in ["used", "unused"] {
        queues.create(&PostParams::default(), &queue(name)).await?;
    }
    let groups: Api<PodGroup> = Api::default_namespaced(cluster.client.clone());
    let group = |name: &str| json!({"metadata": {"name": name}, "spec": {"queue": "used", "minMember": 1}});
    groups.create(&PostParams::default(), &serde_json::from_value(group("g"))?).await?;
    eventually("it is held", async || Ok(!queues.get("used").await?.finalizers().is_empty())).await?;
    queues.delete("unused", &DeleteParams::default()).await?;
    assert!(queues.get_opt("unused").await?.is_none(), "nothing keeps a queue that was never used");
    queues.delete("used", &DeleteParams::default()).await?;
    become_state(&queues, "used", QueueState::Closing).await?;
    let events: Api<Event> = Api::all(cluster.client.clone());
    let is_told = async || {
        let events = events.list(&ListParams::default()).await?;
        let why = "cannot be deleted yet: it is not empty: pod group default/g";
        Ok(events.iter().any(|event| event.message.as_deref() == Some(why)))
    };
    eventually("it says why it stays", is_told).await?;
    groups.delete("g", &DeleteParams::default()).await?;
    eventually("it is gone", async || Ok(queues.get_opt("used").await?.is_none())).await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn admission_refuses_to_delete_a_queue_with_a_job_in_it() -> anyhow::Result<()> {
    let cluster = Cluster::start_batch(1).await?;
    let queues: Api<Queue> = Api::all(cluster.client.clone());
    queues.create(&PostParams::default(), &queue("team")).await?;
    let template = json!({"spec": {"containers": [{"name": "c", "image": "x"}]}});
    let spec = json!({"queue": "team", "tasks": [{"name": "w", "replicas": 1, "template": template}]});
    let job = json!({"metadata": {"name": "lm"}, "spec": spec});
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
    let refused = queues.delete("team", &DeleteParams::default()).await.expect_err("it is in use").to_string();
    assert!(refused.contains("it is not empty: job default/lm"), "{refused}");
    jobs.delete("lm", &DeleteParams::default()).await?;
    eventually("it is gone", async || {
        // Refused for as long as the job is on its way out.
        drop(queues.delete("team", &DeleteParams::default()).await);
        Ok(queues.get_opt("team").await?.is_none())
    })
    .await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_command_for_an_earlier_queue_of_the_name_is_dropped() -> anyhow::Result<()> {
    let cluster = Cluster::start_batch(1).await?;
    let queues: Api<Queue> = Api::all(cluster.client.clone());
    queues.create(&PostParams::default(), &queue("team")).await?;
    become_state(&queues, "team", QueueState::Open).await?;
    command_to(&cluster, "CloseQueue", "team", "of-another").await?;
    let commands: Api<Command> = Api::default_namespaced(cluster.client.clone());
    let is_dropped = async || Ok(commands.list(&ListParams::default()).await?.items.is_empty());
    eventually("the command is gone", is_dropped).await?;
    assert_eq!(queues.get("team").await?.status.and_then(|status| status.state), Some(QueueState::Open));
    let uid = queues.get("team").await?.uid().unwrap_or_default();
    command_to(&cluster, "CloseQueue", "team", &uid).await?;
    become_state(&queues, "team", QueueState::Closed).await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_plain_pod_gets_a_group() -> anyhow::Result<()> {
    let cluster = Cluster::start_batch(1).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let spec = json!({"schedulerName": "volcano", "containers": [{"name": "c", "image": "x"}]});
    let pod = pods
        .create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec}))?)
        .await?;
    let name = format!("podgroup-{}", pod.uid().unwrap_or_default());
    let is_tied = async || Ok(pods.get("p").await?.annotations().get("scheduling.k8s.io/group-name") == Some(&name));
    eventually("the pod is tied to its group", is_tied).await?;
    let groups: Api<PodGroup> = Api::default_namespaced(cluster.client.clone());
    assert_eq!(groups.get(&name).await?.spec.min_member, 1);
    cluster.stop().await;
    Ok(())
}
