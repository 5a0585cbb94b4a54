//! `ronde queue defragment`: asks the scheduler to move workers of elastic jobs, so that jobs start that wait.
//!
//! What would move is decided here by the scheduler's own code, over what the cluster shows now; then the wish is written
//! on the queues, with a time at which it ends. The scheduler that is at work decides anew, and does it.

use std::collections::{BTreeMap, BTreeSet};

use http::{Request, header::CONTENT_TYPE};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
    scheduling::v1::PriorityClass,
    storage::v1::StorageClass,
};
use kube::Client;
use ronde_api::{HyperNode, PodGroup, Queue, names};
use ronde_control::scheduling::Scheduler;
use ronde_runtime::{
    cluster_loop::ClusterLoop as _,
    pods::controller_of,
    watch::{Cached, Caches, Key, Kinds},
};
use ronde_scheduler::{QueueName, Relief, Time};
use serde_json::json;

use crate::{
    Context,
    args::QueueDefragmentArgs,
    client, environment,
    failure::{Answer, Failure, Outcome},
    jobs, objects, table,
};

/// How long the scheduler tries: a worker may take a while to leave, and the next one to come.
const TRIES_FOR: SignedDuration = SignedDuration::from_mins(10);

/// Defragments a queue, or all.
pub async fn defragment(args: &QueueDefragmentArgs, context: &Context) -> Outcome {
    let client = client::connect_as(&args.cluster).await?;
    if let Some(name) = &args.name {
        super::fetch(&client, name).await?;
    }
    let (caches, now) = (look(&client).await?, environment::now());
    let queue = args.name.as_deref().map(QueueName::from);
    let cluster = Scheduler::for_cluster().look(&caches);
    let reliefs = cluster.defragment(queue.as_ref(), Time::from_millis(now.as_millisecond()));
    if reliefs.is_empty() {
        context.printer.say("nothing to move: no waiting job would start");
        return Ok(Answer::Done);
    }
    context.printer.data(lay_out(&reliefs, &caches).join("\n"));
    if !args.dry_run {
        for queue in queues(&reliefs, &caches) {
            ask(&client, &queue, now).await?;
            context.printer.data(format_args!("{} defragments", objects::title::<Queue>(&queue)));
        }
    }
    Ok(Answer::Done)
}

/// Reads all that a scheduler looks at.
async fn look(client: &Client) -> Result<Caches, Box<dyn Failure>> {
    let mut kinds = Kinds::default();
    Scheduler::for_cluster().kinds(&mut kinds);
    let caches = kinds.into_caches();
    fill::<Namespace>(client, &caches).await?;
    fill::<Node>(client, &caches).await?;
    fill::<HyperNode>(client, &caches).await?;
    fill::<Queue>(client, &caches).await?;
    fill::<PriorityClass>(client, &caches).await?;
    fill::<PodGroup>(client, &caches).await?;
    fill::<Pod>(client, &caches).await?;
    fill::<PodDisruptionBudget>(client, &caches).await?;
    fill::<PersistentVolumeClaim>(client, &caches).await?;
    fill::<PersistentVolume>(client, &caches).await?;
    fill::<StorageClass>(client, &caches).await?;
    Ok(caches)
}

async fn fill<K: Cached + k8s_openapi::Resource>(client: &Client, caches: &Caches) -> Result<(), Box<dyn Failure>> {
    objects::list::<K>(client, None, &[]).await?.into_iter().for_each(|object| caches.assume(object));
    Ok(())
}

/// Returns the queues of the jobs that would start.
fn queues(reliefs: &[Relief], caches: &Caches) -> BTreeSet<String> {
    let groups = reliefs.iter().filter_map(|relief| group(relief, caches));
    groups.map(|group| jobs::queue(&group.spec.queue).to_owned()).collect()
}

fn group(relief: &Relief, caches: &Caches) -> Option<std::sync::Arc<PodGroup>> {
    caches.get::<PodGroup>(&Key::new(relief.group.namespace(), relief.group.name()))
}

fn lay_out(reliefs: &[Relief], caches: &Caches) -> Vec<String> {
    let mut rows = Vec::new();
    for relief in reliefs {
        let group = group(relief, caches);
        let owner = group.as_ref().and_then(|group| controller_of(&group.metadata));
        let job = owner.map_or(relief.group.name(), |owner| &owner.name);
        let job = format!("{}/{job}", relief.group.namespace());
        for moved in &relief.moves {
            let [from, to] = [&moved.from, &moved.to].map(ToString::to_string);
            let (namespace, pod) = (moved.pod.namespace().to_owned(), moved.pod.name().to_owned());
            rows.push(vec![namespace, pod, from, to, job.clone()]);
        }
    }
    table::render(&["NAMESPACE", "WORKER", "FROM", "TO", "TO START"], rows)
}

/// Writes the wish on a queue.
async fn ask(client: &Client, queue: &str, now: Timestamp) -> Result<(), Box<dyn Failure>> {
    let until = (now + TRIES_FOR).strftime("%FT%TZ").to_string();
    let patch = json!({"metadata": {"annotations": BTreeMap::from([(names::DEFRAGMENT_UNTIL, until)])}});
    let path = objects::path::<Queue>(None, Some(queue));
    let request = Request::patch(path).header(CONTENT_TYPE, "application/merge-patch+json");
    client::send(client, request, patch.to_string().into_bytes()).await?;
    Ok(())
}
