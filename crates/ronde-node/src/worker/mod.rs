//! The worker of one pod: observe, decide, publish, act, wait.
//!
//! All that it must remember is on disk (records, `sandbox.json`) or in the API; its own notes are what a new worker
//! would find out again. It ends when nothing is left of the pod.

mod account;
mod act;
pub mod build;
pub mod exec;
mod hooks;
mod image;
mod observe;
mod publish;
mod reach;
pub mod sandbox;
mod signal;
mod start;
mod volumes;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use ronde_runtime::{causes::Causes, runner::Ctx};
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::observe::Notes;
use crate::{
    images::choice,
    lifecycle::{self, Action, Cause, Decision, PodSeen, Sandbox},
    node::Node,
    probes::Health,
    supervisor::{client::News, folder::PodFolder, record},
};

/// Hooks, probes and stops of one pod report a handful of times a second at most.
const NOTES_MAX: usize = 64;
/// After an error of the machine or of the API.
const RETRY: Duration = Duration::from_secs(1);
/// Until a dying supervisor is dead.
const DEAF_RETRY: Duration = Duration::from_millis(20);
/// Nothing is missed, but a second look costs little.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What the API says of a pod.
#[derive(Debug, Clone)]
pub struct Desired {
    pub pod: Arc<Pod>,
    /// The object is not there any more.
    pub gone: bool,
    /// Counts changes of what the pod's volumes are made from.
    pub sources: u64,
    /// Why the pod has to make room, if it has.
    pub evicted: Option<Cause>,
}

/// What a task of the worker has to say.
#[derive(Debug)]
pub enum Note {
    Hook {
        container: String,
        attempt: u32,
        failed: Option<String>,
    },
    Probes {
        container: String,
        attempt: u32,
        health: Health,
    },
    PodEvent(lifecycle::PodEvent),
    /// The files of a container are chosen, or could not be.
    Files {
        container: String,
        image: String,
        /// The secrets that were shown to the registry.
        credentials: Vec<String>,
        failed: Option<Cause>,
    },
    /// Something is worth telling, as an event.
    Event {
        container: String,
        reason: &'static str,
        message: String,
    },
}

pub struct Worker {
    node: Arc<Node>,
    ctx: Ctx,
    desired: watch::Receiver<Desired>,
    folder: PodFolder,
    uid: String,
    /// The newest object, with the status published last.
    pod: Pod,
    gone: bool,
    notes: BTreeMap<String, Notes>,
    refused: Option<Cause>,
    evicted: Option<Cause>,
    sandbox_failed: Option<Sandbox>,
    news: Option<News>,
    inbox: mpsc::Receiver<Note>,
    outbox: mpsc::Sender<Note>,
    /// Tasks that act on a container: its stop, its hook, its probes.
    tasks: BTreeMap<(String, Task), (u32, AbortOnDropHandle<()>)>,
    /// Containers whose files are being found.
    finding: BTreeMap<String, AbortOnDropHandle<()>>,
    /// Images that could not be pulled, by name.
    failed_pulls: BTreeMap<String, image::FailedPull>,
    /// The count of the sources that the volumes were made from.
    volumes_of: Option<u64>,
    sources_seen: u64,
    /// Tokens of the pod's service account, by volume and path.
    held: BTreeMap<(String, String), start::HeldToken>,
    told: Told,
}

/// What has been said once and needs no repetition.
#[derive(Debug, Default)]
struct Told {
    /// Shared with the tasks that find files.
    images: Arc<Mutex<BTreeSet<String>>>,
    secrets: Vec<String>,
    limits: bool,
    mount: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Stop,
    Hook,
    Probes,
}

impl Worker {
    /// A pod that is refused only gets a status that says so.
    pub fn new(node: Arc<Node>, ctx: Ctx, desired: watch::Receiver<Desired>, refused: Option<Cause>) -> Self {
        let (pod, gone) = {
            let first = desired.borrow();
            (Pod::clone(&first.pod), first.gone)
        };
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let (outbox, inbox) = mpsc::channel(NOTES_MAX);
        Self {
            folder: node.pod_folder(&uid),
            node,
            ctx,
            desired,
            uid,
            pod,
            gone,
            notes: BTreeMap::new(),
            refused,
            evicted: None,
            sandbox_failed: None,
            news: None,
            inbox,
            outbox,
            tasks: BTreeMap::new(),
            finding: BTreeMap::new(),
            failed_pulls: BTreeMap::new(),
            volumes_of: None,
            sources_seen: 0,
            held: BTreeMap::new(),
            told: Told::default(),
        }
    }

    /// Works until nothing is left of the pod, or until `stop`; then the pod goes on without us.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let next = match self.step().await {
                Ok(Some(next)) => next,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(pod = self.name(), error = %Causes(&error), "retrying after an error");
                    RETRY
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.wait(next) => {}
            }
        }
    }

    /// One round; returns how long to wait if nothing happens, or nothing at the end.
    async fn step(&mut self) -> io::Result<Option<Duration>> {
        // 1. What there is.
        let now = self.node.clock.now();
        self.take_desired(now);
        let (sandbox, made) = self.observe_sandbox(now).await?;
        let records = record::read_all(&self.folder)?;
        self.read_messages(&records);
        self.recognise(&records);
        let mut containers =
            observe::containers(&self.uid, &records, &self.notes, made.as_ref().map(|made| made.made_at));
        for (name, chosen) in choice::read(&self.folder)? {
            containers.entry(name).and_modify(|seen| seen.image_id = Some(chosen.id()));
        }
        // 2. What follows.
        let decision = lifecycle::decide(&PodSeen {
            pod: &self.pod,
            now,
            host_ip: self.node.host_ip_of(&self.pod),
            refused: self.refused.as_ref(),
            evicted: self.evicted.as_ref(),
            sandbox: &sandbox,
            containers: &containers,
        });
        // 3. Say it.
        if !self.publish(&decision).await? {
            return Ok(Some(Duration::ZERO));
        }
        // 4. Do it.
        self.watch_running(&containers);
        let acted = !decision.actions.is_empty();
        for action in &decision.actions {
            if *action == Action::Release {
                return self.release().await.map(|()| None);
            }
            self.act(action, now).await?;
        }
        self.refresh_volumes(&sandbox).await;
        // A supervisor that lives and is not heard of is dying: its lock goes a moment after its socket.
        let is_deaf = matches!(sandbox, Sandbox::Ready { .. }) && self.news.is_none();
        Ok(Some(match (acted, is_deaf) {
            (true, _) => Duration::ZERO,
            (false, true) => DEAF_RETRY,
            (false, false) => until(&decision, now),
        }))
    }

    fn name(&self) -> String {
        let meta = &self.pod.metadata;
        format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    /// Takes the newest object; the status is ours, unless the API has a newer one.
    fn take_desired(&mut self, now: Timestamp) {
        let desired = self.desired.borrow_and_update().clone();
        if version(&desired.pod) > version(&self.pod) {
            self.pod = Pod::clone(&desired.pod);
        }
        if desired.sources != self.sources_seen {
            // What a container waits for may be there now.
            self.notes.values_mut().filter_map(|notes| notes.blocked.as_mut()).for_each(|blocked| blocked.until = now);
            self.sources_seen = desired.sources;
        }
        self.evicted = desired.evicted;
        self.gone |= desired.gone;
        if self.gone && self.pod.metadata.deletion_timestamp.is_none() {
            // Deleted without grace: nothing is left to wait for.
            self.pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
            self.pod.metadata.deletion_grace_period_seconds = Some(0);
        }
    }

    async fn observe_sandbox(&mut self, now: Timestamp) -> io::Result<(Sandbox, Option<sandbox::Made>)> {
        let (seen, made) = sandbox::observe(&self.folder, now)?;
        match seen {
            Sandbox::Ready { .. } if self.news.is_none() => self.news = News::subscribe(&self.folder).await.ok(),
            Sandbox::Ready { .. } => {}
            _ => self.news = None,
        }
        match (&seen, &self.sandbox_failed) {
            (Sandbox::Absent | Sandbox::Lost { .. }, Some(failed)) => Ok((failed.clone(), made)),
            (Sandbox::Ready { ip: None }, _) if self.node.network.is_none() => {
                Ok((Sandbox::Ready { ip: Some(self.node.host_ip_of(&self.pod)) }, made))
            }
            _ => Ok((seen, made)),
        }
    }

    /// Waits for anything that may change the decision.
    async fn wait(&mut self, limit: Duration) {
        if limit.is_zero() {
            // What has already been said is heard all the same.
            while let Ok(note) = self.inbox.try_recv() {
                self.take_note(note);
            }
            return;
        }
        let news = async {
            match &mut self.news {
                Some(news) => news.next().await,
                None => std::future::pending().await,
            }
        };
        let note = tokio::select! {
            heard = news => {
                if heard.is_err() {
                    self.news = None;
                }
                None
            }
            changed = self.desired.changed() => {
                if changed.is_err() {
                    // The agent is gone: so will we be.
                    tokio::time::sleep(RETRY).await;
                }
                None
            }
            note = self.inbox.recv() => note,
            () = tokio::time::sleep(limit) => None,
        };
        if let Some(note) = note {
            self.take_note(note);
        }
    }
}

/// Objects of one server have comparable versions.
fn version(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn until(decision: &Decision, now: Timestamp) -> Duration {
    let wait = decision.wake_at.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
    // A moment later rather than a moment too early.
    wait.map_or(LOOK_AGAIN, |wait| (wait + Duration::from_millis(1)).min(LOOK_AGAIN))
}
