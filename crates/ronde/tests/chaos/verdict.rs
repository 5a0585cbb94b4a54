//! Whether the processes of the machine are what the API says.

use std::{collections::BTreeSet, time::Duration};

use fs_err as fs;
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    batch::v1::Job,
    core::v1::{ContainerStatus, Pod},
};
use kube::{Api, api::ListParams};
use ronde_node::supervisor::record;

use crate::{
    deeds::{DEPLOYMENT, Deeds, Kind, STATEFUL_SET, delete},
    instance::{Instance, is_alive},
    now,
};

/// Pods restart within a second or two; a machine under load gets many times that.
const LIMIT: Duration = Duration::from_secs(240);
const PAUSE: Duration = Duration::from_millis(100);
/// Looks in a row that must find nothing wrong: one could fall between two changes.
const LOOKS: u32 = 10;

/// Waits until nothing contradicts the API; pods that back off are deleted, so that their owners replace them.
pub async fn wait_for_peace(instance: &Instance, deeds: &Deeds) {
    let (begun, mut good) = (now(), 0);
    while good < LOOKS {
        let wrong = contradictions(instance, deeds).await;
        good = if wrong.is_empty() { good + 1 } else { 0 };
        let is_late = begun.elapsed() >= LIMIT;
        assert!(!is_late, "no peace after {LIMIT:?}:\n  {}\n{}", wrong.join("\n  "), instance.log_tail());
        tokio::time::sleep(PAUSE).await;
    }
}

async fn contradictions(instance: &Instance, deeds: &Deeds) -> Vec<String> {
    let pods = list::<Pod>(instance).await;
    let mut wrong = Vec::new();
    for pod in &pods {
        wrong.extend(of_pod(instance, pod));
        if pod.metadata.deletion_timestamp.is_none() && statuses(pod).iter().any(is_backing_off) {
            delete::<Pod>(&instance.client, name(pod), None).await;
        }
    }
    wrong.extend(of_folders(instance, &pods));
    wrong.extend(of_owners(instance, deeds).await);
    wrong.extend(deeds.askers.contradictions(instance));
    wrong
}

/// A container that runs has a process; one that does not has none; none has started more often than the API says.
fn of_pod(instance: &Instance, pod: &Pod) -> Vec<String> {
    let (uid, mut wrong) = (pod.metadata.uid.as_deref().unwrap(), Vec::new());
    if pod.metadata.deletion_timestamp.is_some() {
        wrong.push(format!("pod {} is still being deleted", name(pod)));
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    if phase == "Pending" {
        wrong.push(format!("pod {} is Pending: {:?}", name(pod), statuses(pod).first().map(|status| &status.state)));
    }
    let folder = instance.pods().into_iter().find(|folder| folder.path().ends_with(uid));
    let records = folder.and_then(|folder| record::read_all(&folder).ok()).unwrap_or_default();
    for status in statuses(pod) {
        let record = records.get(&status.name).and_then(|records| records.last());
        let process = record.filter(|record| record.end.is_none()).and_then(|record| record.pid);
        let is_living = process.is_some_and(|pid| is_alive(pid) && instance.owns(pid));
        let is_running = status.state.as_ref().is_some_and(|state| state.running.is_some());
        if is_running != is_living {
            let state = &status.state;
            wrong.push(format!("pod {}: state {state:?}, process {process:?} lives: {is_living}", name(pod)));
        }
        let starts = fs::read_to_string(instance.notes().join(uid)).unwrap_or_default().lines().count();
        if starts > usize::try_from(status.restart_count).unwrap() + 1 {
            let counted = status.restart_count;
            wrong.push(format!("pod {} has started {starts} times, {counted} restarts are counted", name(pod)));
        }
    }
    wrong
}

/// Every folder belongs to a pod of the API.
fn of_folders(instance: &Instance, pods: &[Pod]) -> Vec<String> {
    let known: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
    let folders = instance.pods().into_iter().map(|folder| folder.path().to_owned());
    let forgotten = folders.filter(|path| !path.file_name().is_some_and(|uid| known.contains(uid.to_str().unwrap())));
    forgotten.map(|path| format!("a folder of no pod: {}", path.display())).collect()
}

async fn of_owners(instance: &Instance, deeds: &Deeds) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |what: &str, found: Option<i32>, wanted: u64| {
        if u64::try_from(found.unwrap_or(0)).ok() != Some(wanted) {
            wrong.push(format!("{what}: {found:?} instead of {wanted}"));
        }
    };
    let jobs = list::<Job>(instance).await;
    expect("jobs", i32::try_from(jobs.len()).ok(), deeds.jobs.len() as u64);
    for job in jobs {
        let (name, status) = (job.metadata.name.unwrap_or_default(), job.status.unwrap_or_default());
        expect(&format!("{name}: succeeded"), status.succeeded, deeds.jobs.get(&name).copied().unwrap_or(0));
        expect(&format!("{name}: active"), status.active, 0);
    }
    let gangs = list::<ronde_api::Job>(instance).await;
    expect("gangs", i32::try_from(gangs.len()).ok(), deeds.gangs.len() as u64);
    for gang in gangs {
        let (name, status) = (gang.metadata.name.unwrap_or_default(), gang.status.unwrap_or_default());
        expect(&format!("{name}: succeeded"), Some(status.succeeded), deeds.gangs.get(&name).copied().unwrap_or(0));
        let has_ended = status.state.phase == Some(ronde_api::JobPhase::Completed);
        expect(&format!("{name}: completed"), Some(has_ended.into()), 1);
    }
    let crowd = get::<Deployment>(instance, DEPLOYMENT).await.status.unwrap_or_default();
    expect("the deployment's pods", crowd.replicas, deeds.crowd);
    expect("the deployment's available pods", crowd.available_replicas, deeds.crowd);
    let row = get::<StatefulSet>(instance, STATEFUL_SET).await.status.unwrap_or_default();
    expect("the stateful set's pods", Some(row.replicas), deeds.row);
    expect("the stateful set's ready pods", row.ready_replicas, deeds.row);
    wrong
}

fn is_backing_off(status: &ContainerStatus) -> bool {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
}

fn statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

async fn list<K: Kind>(instance: &Instance) -> Vec<K> {
    Api::<K>::default_namespaced(instance.client.clone()).list(&ListParams::default()).await.unwrap().items
}

async fn get<K: Kind>(instance: &Instance, name: &str) -> K {
    Api::<K>::default_namespaced(instance.client.clone()).get(name).await.unwrap()
}
