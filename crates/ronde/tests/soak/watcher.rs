//! Looks at the pods all the while: no node may have more of them than it has room for, and no gang may stay in part.
//!
//! A gang is bound pod by pod; one whose operator dies in between is in part until the next one goes on. How long that was
//! at most is told, and limited.

use std::{collections::BTreeMap, fmt, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt as _, api::ListParams};
use ronde_api::names;
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

use crate::cluster::Cluster;

const PAUSE: Duration = Duration::from_millis(250);
/// The lease of a dead operator lasts for 15 s, and the next one may die or lose its network too, for up to 25 s.
const PART_MAX: Duration = Duration::from_secs(90);
/// What each of our pods asks for.
const POD_MILLICORES: u64 = 500;

pub struct Watcher {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Seen>,
}

/// What was seen so far.
#[derive(Default)]
pub struct Seen {
    looks: u64,
    overbooked: Vec<String>,
    /// Since when gangs are in part.
    since: BTreeMap<String, Instant>,
    longest: Option<(Duration, String)>,
}

impl Watcher {
    pub fn start(cluster: &Cluster) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let cluster = cluster.clone();
        let task = tokio::spawn(async move {
            let mut seen = Seen::default();
            while stopped.try_recv().is_err() {
                let pods = cluster.api::<Pod>().list(&ListParams::default()).await;
                let nodes = Api::<Node>::all(cluster.client.clone()).list(&ListParams::default()).await;
                if let (Ok(pods), Ok(nodes)) = (pods, nodes) {
                    seen.look(&nodes.items, &pods.items, Instant::now());
                }
                tokio::time::sleep(PAUSE).await;
            }
            seen
        });
        Self { stop, task }
    }

    /// Ends the watch. Panics if something was seen that may not be.
    pub async fn verdict(self) -> Seen {
        let _ = self.stop.send(());
        let seen = self.task.await.unwrap();
        assert!(seen.overbooked.is_empty(), "more than the nodes have room for: {:#?}", seen.overbooked);
        let longest = seen.longest.as_ref().filter(|(time, _)| *time > PART_MAX);
        assert!(longest.is_none(), "a gang was bound in part for long: {longest:?}");
        seen
    }
}

impl Seen {
    fn look(&mut self, nodes: &[Node], pods: &[Pod], now: Instant) {
        self.looks += 1;
        for node in nodes {
            let (room, name) = (millicores(node), node.name_any());
            let on_it = pods.iter().filter(|pod| node_of(pod) == Some(&name) && is_active(pod));
            let booked = on_it.count() as u64 * POD_MILLICORES;
            if booked > room {
                self.overbooked.push(format!("{name}: {booked}m of {room}m"));
            }
        }
        let mut gangs = BTreeMap::<&str, Vec<&Pod>>::new();
        for pod in pods {
            gangs.entry(pod.labels().get(names::JOB_NAME).map_or("", String::as_str)).or_default().push(pod);
        }
        self.since.retain(|name, _| gangs.get(name.as_str()).is_some_and(|pods| is_in_part(pods)));
        for (name, _) in gangs.iter().filter(|(_, pods)| is_in_part(pods)) {
            let time = now - *self.since.entry((*name).to_owned()).or_insert(now);
            if self.longest.as_ref().is_none_or(|(longest, _)| time > *longest) {
                self.longest = Some((time, (*name).to_owned()));
            }
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} looks: no node was overbooked", self.looks)?;
        match &self.longest {
            Some((time, name)) => {
                write!(formatter, "; {name} was bound in part for {:.1} s, the longest", time.as_secs_f64())
            }
            None => write!(formatter, "; no gang was seen in part"),
        }
    }
}

/// Whether some members have a node and others wait for one; members that leave are no longer part of it.
fn is_in_part(pods: &[&Pod]) -> bool {
    let staying = || pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    staying().any(|pod| node_of(pod).is_some()) && staying().any(|pod| node_of(pod).is_none())
}

fn node_of(pod: &Pod) -> Option<&String> {
    pod.spec.as_ref()?.node_name.as_ref()
}

fn is_active(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

fn millicores(node: &Node) -> u64 {
    let room = node.status.as_ref().and_then(|status| status.allocatable.as_ref()).and_then(|room| room.get("cpu"));
    room.and_then(|cpu| cpu.0.parse::<u64>().ok()).map_or(0, |cores| cores * 1000)
}
