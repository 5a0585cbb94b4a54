//! Watches the disk that pods write to: says when it is nearly full, removes images that nobody uses, and evicts as a
//! kubelet does.
//!
//! One look per second at the file system, and at some thousand files of pods. [`room`], [`limits`] and [`victim`] decide
//! and are pure; [`usage`] counts; this is the loop. What it finds goes out through [`Node::pressure`] (conditions,
//! admission) and the agent, which tells the pod's worker that its pod is evicted.

pub mod limits;
pub mod room;
pub mod usage;
pub mod victim;

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use ronde_runtime::{pods::is_finished, runner::Ctx, watch::Key};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::{
    room::{Amount, Pressure, Room},
    usage::{Scan, Usage},
};
use crate::{agent::Agent, lifecycle::Cause, node::Node};

const PACE: Duration = Duration::from_secs(1);
/// Files that are looked at in one go: some ten milliseconds.
const ENTRIES: usize = 10_000;
/// The same while the disk is full and it is not known by whom.
const ENTRIES_ACUTE: usize = 100_000;
/// As a kubelet: what a pod uses is counted every ten seconds, or as fast as the number of files allows.
const ROUND: Duration = Duration::from_secs(10);
/// An evicted pod has this long to give its room back before another has to go.
const MAKES_ROOM: Duration = Duration::from_secs(30);
/// How long pods are spared while images are removed: that has to wait for pulls, which may themselves be stuck.
const COLLECTS: Duration = Duration::from_secs(10);

/// Looks at a disk.
///
/// # Errors
/// If the file system does not answer.
pub fn look(folder: &Path) -> std::io::Result<Room> {
    let stat = rustix::fs::statvfs(folder)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(Room {
        bytes: Amount { free: bytes(stat.f_bavail), total: bytes(stat.f_blocks) },
        inodes: Amount { free: stat.f_favail, total: stat.f_files },
    })
}

/// Watches until `stop`.
pub async fn watch(node: Arc<Node>, agent: Arc<Agent>, ctx: Ctx, stop: CancellationToken) {
    let mut watch = Watch::default();
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(pace.tick()).await.is_some() {
        watch = watch.turn(&node, &agent, &ctx).await;
    }
}

#[derive(Default)]
struct Watch {
    pressure: Pressure,
    /// What each pod used when it was last counted, by uid.
    usages: BTreeMap<String, Usage>,
    /// Who is to be counted in this round.
    queue: VecDeque<String>,
    scan: Option<(String, Scan)>,
    round_begun: Option<Timestamp>,
    /// When the disk was first seen to be full; who is counted before then may have written much since.
    acute_since: Option<Timestamp>,
    /// Who was evicted last, and when.
    evicted: Option<(String, Timestamp)>,
    /// The last removal of images, and when it began.
    collection: Option<(JoinHandle<()>, Timestamp)>,
}

impl Watch {
    async fn turn(mut self, node: &Arc<Node>, agent: &Arc<Agent>, ctx: &Ctx) -> Self {
        let now = node.clock.now();
        // 1. How much room there is.
        match look(&node.folder) {
            Ok(room) => self.take_room(node, ctx, room, now),
            Err(error) => tracing::warn!(%error, "cannot check the disk"),
        }
        // 2. What pods use; whoever uses more than it may goes.
        let pods = running(node, ctx);
        let (mut watch, counted) = self.count(node.clone(), pods.keys().cloned().collect(), now).await;
        for uid in counted {
            if let (Some(pod), Some(usage)) = (pods.get(&uid), watch.usages.get(&uid))
                && let Some(cause) = limits::exceeded(pod, usage)
            {
                agent.evict(&uid, cause);
            }
        }
        // 3. Images that nobody uses go before pods do.
        watch.collect_images(node, now);
        // 4. Whoever has filled the disk goes.
        if !watch.is_collecting(now)
            && let Some((uid, cause)) = watch.choose(&pods, now)
        {
            agent.evict(&uid, cause);
            watch.evicted = Some((uid, now));
        }
        watch
    }

    fn take_room(&mut self, node: &Node, ctx: &Ctx, room: Room, now: Timestamp) {
        let before = self.pressure;
        self.pressure = before.after(room, now);
        self.acute_since = self.pressure.is_acute().then(|| self.acute_since.unwrap_or(now));
        node.pressure.send_replace(self.pressure.shortage);
        match (before.shortage, self.pressure.shortage) {
            (None, Some(shortage)) => {
                let (resource, free) = (shortage.resource, shortage.shown(shortage.free));
                tracing::warn!(%resource, free, "the disk is nearly full: not accepting pods, removing images, evicting the pod that uses most");
                for_each_node(node, ctx, |node| {
                    ctx.events.warning(node, "EvictionThresholdMet", format!("Attempting to reclaim {resource}"));
                    ctx.events.normal(node, "NodeHasDiskPressure", status_is(node, "NodeHasDiskPressure"));
                });
            }
            (Some(_), None) => {
                tracing::info!("the disk has room again");
                for_each_node(node, ctx, |node| {
                    ctx.events.normal(node, "NodeHasNoDiskPressure", status_is(node, "NodeHasNoDiskPressure"));
                });
            }
            _ => {}
        }
    }

    /// Counts some files; returns whose count is complete.
    async fn count(mut self, node: Arc<Node>, uids: Vec<String>, now: Timestamp) -> (Self, Vec<String>) {
        self.usages.retain(|uid, _| uids.contains(uid));
        let is_over = self.queue.is_empty() && self.scan.is_none();
        let is_due = |begun: Timestamp| now.duration_since(begun) >= ROUND.try_into().unwrap_or_default();
        if is_over && (self.pressure.is_acute() || self.round_begun.is_none_or(is_due)) {
            self.queue = uids.into();
            self.round_begun = Some(now);
        }
        let entries = if self.pressure.is_acute() { ENTRIES_ACUTE } else { ENTRIES };
        let mut counted = Vec::new();
        let work = tokio::task::spawn_blocking(move || {
            self.count_entries(&node, entries, &mut counted);
            (self, counted)
        });
        work.await.unwrap_or_else(|_| (Self::default(), Vec::new()))
    }

    fn count_entries(&mut self, node: &Node, mut entries: usize, counted: &mut Vec<String>) {
        while entries > 0 {
            let begin = |uid: String| (uid.clone(), Scan::new(&node.pod_folder(&uid)));
            let Some((uid, mut scan)) = self.scan.take().or_else(|| self.queue.pop_front().map(begin)) else { return };
            match scan.advance(&mut entries) {
                Some(usage) => {
                    self.usages.insert(uid.clone(), usage);
                    counted.push(uid);
                }
                None => self.scan = Some((uid, scan)),
            }
        }
    }

    /// Begins to remove images, unless that was just done.
    fn collect_images(&mut self, node: &Arc<Node>, now: Timestamp) {
        let Some(shortage) = self.pressure.shortage.filter(|_| self.pressure.is_acute()) else { return };
        let is_recent = |(task, begun): &(JoinHandle<()>, Timestamp)| {
            !task.is_finished() || now.duration_since(*begun) < MAKES_ROOM.try_into().unwrap_or_default()
        };
        if self.collection.as_ref().is_some_and(is_recent) {
            return;
        }
        let node = node.clone();
        let task = tokio::task::spawn_blocking(move || node.images.collect(&shortage));
        self.collection = Some((task, now));
    }

    fn is_collecting(&self, now: Timestamp) -> bool {
        let is_young = |begun: Timestamp| now.duration_since(begun) < COLLECTS.try_into().unwrap_or_default();
        self.collection.as_ref().is_some_and(|(task, begun)| !task.is_finished() && is_young(*begun))
    }

    /// Chooses who has to go, if somebody has and everybody was counted since the disk became full.
    fn choose(&mut self, pods: &BTreeMap<String, Arc<Pod>>, now: Timestamp) -> Option<(String, Cause)> {
        let shortage = self.pressure.shortage.filter(|_| self.pressure.is_acute())?;
        let has_begun = self.round_begun >= self.acute_since;
        if !has_begun || !self.queue.is_empty() || self.scan.is_some() {
            return None;
        }
        let is_making_room = |(uid, at): &(String, Timestamp)| {
            pods.contains_key(uid) && now.duration_since(*at) < MAKES_ROOM.try_into().unwrap_or_default()
        };
        if self.evicted.as_ref().is_some_and(is_making_room) {
            return None;
        }
        let candidates: Vec<victim::Candidate<'_>> =
            self.usages.iter().filter_map(|(uid, usage)| Some((&**pods.get(uid)?, usage))).collect();
        let (pod, cause) = victim::choose(&candidates, &shortage)?;
        Some((pod.metadata.uid.clone()?, cause))
    }
}

/// The pods of this machine that have not ended, by uid. One that has ended counts until its files are gone.
fn running(node: &Node, ctx: &Ctx) -> BTreeMap<String, Arc<Pod>> {
    let on_disk = node.uids_on_disk();
    let pods = ctx.caches.list::<Pod>(None).into_iter();
    let pods = pods.filter_map(|pod| Some((pod.metadata.uid.clone()?, pod)));
    pods.filter(|(uid, pod)| !is_finished(pod) && on_disk.contains(uid)).collect()
}

fn for_each_node(node: &Node, ctx: &Ctx, act: impl Fn(&NodeObject)) {
    let nodes = node.names.iter().filter_map(|name| ctx.caches.get::<NodeObject>(&Key::new("", name.clone())));
    nodes.for_each(|node| act(&node));
}

fn status_is(node: &NodeObject, status: &str) -> String {
    format!("Node {} status is now: {status}", node.metadata.name.as_deref().unwrap_or_default())
}
