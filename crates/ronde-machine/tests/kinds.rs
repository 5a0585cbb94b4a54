//! Our kinds on our own server, in process: installed once, then defaulted and checked on every write.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};
use k8s_openapi::{
    api::core::v1::Pod, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use ronde_api::{Job, JobPhase, JobState, JobStatus, PodGroup, Queue};
use ronde_apiserver::{Apiserver, clock_and_ids::ClockAndIds};
use ronde_control::install;
use ronde_machine::admission::OwnKinds;
use serde_json::json;

/// A server with our rules, on a clock that stands still.
async fn server() -> Result<(Apiserver, Client)> {
    let count = AtomicU64::new(0);
    let random = move || u128::from(count.fetch_add(1, Ordering::Relaxed));
    let world = ClockAndIds::new(|| jiff::Timestamp::UNIX_EPOCH, random);
    let server = Apiserver::in_memory_with(world, vec![Arc::new(OwnKinds::default())]).await?;
    let client = Client::new(server.router(), "default");
    Ok((server, client))
}

fn job() -> Result<Job> {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"tasks": [{"replicas": 2, "template": template, "policies": []}]});
    Ok(serde_json::from_value(json!({"metadata": {"name": "mnist"}, "spec": spec}))?)
}

#[tokio::test]
async fn a_second_installation_writes_nothing() -> Result<()> {
    let (server, client) = server().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let queues: Api<Queue> = Api::all(client.clone());
    install::ensure(&client).await?;
    // Its own loop says in the status of each definition that it is served.
    let served = ronde_api::crd::all().len();
    while definitions.list(&ListParams::default()).await?.iter().filter(|crd| crd.status.is_some()).count() < served {
        tokio::task::yield_now().await;
    }
    let versions = async || -> Result<Vec<Option<String>>> {
        let definitions = definitions.list(&ListParams::default()).await?;
        let queues = queues.list(&ListParams::default()).await?;
        let of_definitions = definitions.iter().map(kube::ResourceExt::resource_version);
        Ok(of_definitions.chain(queues.iter().map(kube::ResourceExt::resource_version)).collect())
    };
    let before = versions().await?;
    install::ensure(&client).await?;
    assert_eq!(versions().await?, before);
    assert_eq!(before.len(), served + 2);
    let root = queues.get("root").await?;
    assert_eq!((root.spec.is_reclaimable(), root.spec.parent.as_str()), (false, ""));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_definition_that_was_changed_is_written_again() -> Result<()> {
    let (server, client) = server().await?;
    install::ensure(&client).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let older =
        json!({"metadata": {"annotations": {"ronde.dev/digest": "older"}}, "spec": {"names": {"shortNames": []}}});
    definitions.patch("jobs.batch.volcano.sh", &PatchParams::default(), &Patch::Merge(older)).await?;
    install::ensure(&client).await?;
    let names = definitions.get("jobs.batch.volcano.sh").await?.spec.names;
    assert_eq!(names.short_names, Some(vec!["vcjob".to_owned(), "vj".to_owned()]));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_job_is_defaulted_once_and_its_status_is_free() -> Result<()> {
    let (server, client) = server().await?;
    install::ensure(&client).await?;
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let mut made = jobs.create(&PostParams::default(), &job()?).await?;
    assert_eq!((made.spec.min_available, made.spec.tasks[0].name.as_str()), (2, "default0"));
    // The controller writes the phase; then somebody writes the job as it was sent.
    made.status = Some(JobStatus {
        state: JobState { phase: Some(JobPhase::Running), ..JobState::default() },
        ..JobStatus::default()
    });
    let running = jobs.replace_status("mnist", &PostParams::default(), &made).await?;
    let mut again = job()?;
    again.spec.queue = "default".to_owned();
    again.spec.scheduler_name = "volcano".to_owned();
    again.spec.max_retry = 3;
    again.spec.min_available = 2;
    again.metadata.resource_version = running.resource_version();
    let written = jobs.replace("mnist", &PostParams::default(), &again).await?;
    assert_eq!(written.resource_version(), running.resource_version(), "nothing has changed");
    assert_eq!(written.metadata.generation, Some(1));
    assert_eq!(written.status.context("a status")?.state.phase, Some(JobPhase::Running));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn faults_come_as_causes_of_one_answer() -> Result<()> {
    let (server, client) = server().await?;
    install::ensure(&client).await?;
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let mut wrong = job()?;
    wrong.spec.queue = "nowhere".to_owned();
    wrong.spec.tasks[0].min_available = Some(3);
    let Err(kube::Error::Api(status)) = jobs.create(&PostParams::default(), &wrong).await else {
        anyhow::bail!("a wrong job was taken");
    };
    let details = status.details.clone().context("details")?;
    let causes: Vec<_> = details.causes.iter().map(|cause| (&*cause.reason, &*cause.field, &*cause.message)).collect();
    assert_eq!((status.code, status.reason.as_str(), details.kind.as_str()), (422, "Invalid", "Job"));
    assert_eq!(
        causes,
        [
            ("FieldValueNotFound", "spec.queue", "Not found: there is no queue \"nowhere\""),
            (
                "FieldValueInvalid",
                "spec.minAvailable",
                "Invalid value: job 'minAvailable' should not be greater than total replicas in tasks: 3 > 2",
            ),
            (
                "FieldValueInvalid",
                "spec.tasks[0].minAvailable",
                "Invalid value: 'minAvailable' is greater than 'replicas' in task \"default0\": 3 > 2",
            ),
        ]
    );
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn rules_follow_the_queues_as_they_change() -> Result<()> {
    let (server, client) = server().await?;
    install::ensure(&client).await?;
    let queues: Api<Queue> = Api::all(client.clone());
    let groups: Api<PodGroup> = Api::default_namespaced(client.clone());
    let group = |name: &str| -> Result<PodGroup> {
        Ok(serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"minMember": 1, "queue": "team"}}))?)
    };
    let refused = async |name: &str| {
        Ok::<bool, anyhow::Error>(groups.create(&PostParams::default(), &group(name)?).await.is_err())
    };
    assert!(refused("too-early").await?);
    let team: Queue = serde_json::from_value(json!({"metadata": {"name": "team"}}))?;
    queues.create(&PostParams::default(), &team).await?;
    assert!(!refused("open").await?);
    let closed = json!({"status": {"state": "Closed"}});
    queues.patch_status("team", &PatchParams::default(), &Patch::Merge(closed)).await?;
    assert!(refused("closed").await?);
    groups.delete("open", &kube::api::DeleteParams::default()).await?;
    queues.delete("team", &kube::api::DeleteParams::default()).await?;
    assert!(refused("gone").await?);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn budgets_of_pods_of_our_schedulers_are_checked_when_they_are_made() -> Result<()> {
    let (server, client) = server().await?;
    install::ensure(&client).await?;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let made = async |name: &str, scheduler: &str, budget: serde_json::Value| {
        let meta = json!({"name": name, "annotations": budget});
        let spec = json!({"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]});
        let pod: Pod = serde_json::from_value(json!({"metadata": meta, "spec": spec}))?;
        Ok::<_, anyhow::Error>(pods.create(&PostParams::default(), &pod).await)
    };
    let (least, most) = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable");
    for (name, budget) in [("number", json!({least: "2"})), ("percentage", json!({most: "25%"})), ("none", json!({}))] {
        made(name, "volcano", budget).await??;
    }
    for budget in [json!({least: "0"}), json!({most: "100%"}), json!({least: "1", most: "1"})] {
        for scheduler in ["volcano", "ronde"] {
            let refused = made("wrong", scheduler, budget.clone()).await?.expect_err("a wrong budget").to_string();
            assert!(refused.contains("metadata.annotations[volcano.sh/jdb-"), "{refused}");
        }
        made("wrong", "default-scheduler", budget).await??;
        pods.delete("wrong", &kube::api::DeleteParams::default()).await?;
    }
    // Who writes a pod that has one already is not stopped by it.
    let patch = json!({"metadata": {"annotations": {least: "0"}}});
    pods.patch("none", &PatchParams::default(), &Patch::Merge(patch)).await?;
    server.stop().await;
    Ok(())
}
