//! What every controller may rely on.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, ResourceExt as _, api::PostParams};
use parking_lot::Mutex;
use ronde_runtime::{
    pods::apply::remove_within,
    runner::{Controller, Ctx, Runner},
    watch::{Caches, Change, Key, Kinds},
};
use serde_json::json;
use tokio::time::Instant;

use crate::cluster::{Cluster, Running, create, names, patch, within};

const SOON: Duration = Duration::from_secs(60);

/// What a look at a config map does, by a word in its data.
#[derive(Clone, Default)]
struct Toy {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// When each key was looked at.
    looks: BTreeMap<String, Vec<Instant>>,
    running: BTreeMap<String, usize>,
    running_max: usize,
    /// Secrets in the cache at the first look.
    secrets: Option<usize>,
    twice: bool,
    /// Whether the cache has a secret that was deleted and that a finalizer keeps.
    has_kept: Option<bool>,
}

impl Controller for Toy {
    const NAME: &'static str = "toy";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<ConfigMap>().add::<Secret>();
    }

    fn affected(&self, change: &Change, _: &Caches) -> Vec<Key> {
        if change.is::<ConfigMap>() && change.key.namespace == "default" {
            vec![change.key.clone()]
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(map) = ctx.caches.get::<ConfigMap>(key) else { return Ok(None) };
        let act = map.data.as_ref().and_then(|data| data.get("act").cloned()).unwrap_or_default();
        let looks = {
            let mut seen = self.seen.lock();
            seen.secrets.get_or_insert_with(|| ctx.caches.list::<Secret>(Some("default")).len());
            let looks = seen.looks.entry(key.name.clone()).or_default();
            looks.push(Instant::now());
            let looks = looks.len();
            let running = seen.running.entry(key.name.clone()).or_default();
            *running += 1;
            let is_twice = *running > 1;
            seen.twice |= is_twice;
            let running = seen.running.values().sum();
            seen.running_max = seen.running_max.max(running);
            looks
        };
        let done = match act.as_str() {
            "slow" => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(None)
            }
            "again" => Ok(Some(SignedDuration::from_secs(10))),
            "fail" if looks < 5 => {
                Api::<ConfigMap>::default_namespaced(ctx.client.clone()).get("nobody").await.map(|_| None)
            }
            "children" => children(ctx, key).await,
            "delete" => {
                let has_kept = delete_twice(ctx, key).await?;
                self.seen.lock().has_kept = Some(has_kept);
                Ok(None)
            }
            _ => Ok(None),
        };
        *self.seen.lock().running.entry(key.name.clone()).or_default() -= 1;
        assert!(act != "panic" || looks >= 3, "as asked for");
        done
    }
}

/// Makes secrets until the cache shows three: too many if it did not show one's own writes.
async fn children(ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
    let own = |secret: &Arc<Secret>| secret.name_any().starts_with(&key.name);
    if ctx.caches.list::<Secret>(Some("default")).iter().filter(|secret| own(secret)).count() >= 3 {
        return Ok(None);
    }
    let secrets: Api<Secret> = Api::default_namespaced(ctx.client.clone());
    let secret = json!({"metadata": {"generateName": format!("{}-", key.name)}});
    let secret = serde_json::from_value(secret).map_err(kube::Error::SerdeError)?;
    ctx.caches.assume(secrets.create(&PostParams::default(), &secret).await?);
    Ok(Some(SignedDuration::ZERO))
}

/// Deletes a secret that a finalizer keeps, the second time without any change; tells whether the cache still has it.
async fn delete_twice(ctx: &Ctx, key: &Key) -> Result<bool, kube::Error> {
    let secrets: Api<Secret> = Api::default_namespaced(ctx.client.clone());
    let secret = json!({"metadata": {"name": key.name, "finalizers": ["ronde.test/kept"]}});
    let secret = serde_json::from_value(secret).map_err(kube::Error::SerdeError)?;
    let secret = secrets.create(&PostParams::default(), &secret).await?;
    ctx.caches.assume(secret.clone());
    for _ in 0..2 {
        remove_within(ctx, &secret, Some(0)).await?;
    }
    Ok(ctx.caches.get::<Secret>(key).is_some())
}

async fn start() -> anyhow::Result<(Cluster, Toy, Running)> {
    let cluster = Cluster::start().await?;
    for number in 0..3 {
        create(&cluster.api::<Secret>(), json!({"metadata": {"name": format!("s{number}")}})).await?;
    }
    create(&cluster.api::<ConfigMap>(), json!({"metadata": {"name": "first"}})).await?;
    let toy = Toy::default();
    let mut runner = Runner::new(cluster.client.clone(), cluster.clock.clone());
    runner.add(toy.clone());
    Ok((cluster, toy, Running::start(runner)))
}

async fn act(cluster: &Cluster, name: &str, act: &str) -> anyhow::Result<()> {
    create(&cluster.api::<ConfigMap>(), json!({"metadata": {"name": name}, "data": {"act": act}})).await.map(drop)
}

/// Waits until a key has been looked at so many times; returns the times between the looks.
async fn looks(toy: &Toy, name: &str, count: usize) -> anyhow::Result<Vec<Duration>> {
    let look = || async {
        let times = toy.seen.lock().looks.get(name).cloned().unwrap_or_default();
        Ok((times.len() >= count).then_some(times))
    };
    let (times, _) = within(&format!("{count} looks at {name}"), SOON, look).await?;
    Ok(times.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

#[tokio::test(start_paused = true)]
async fn the_caches_are_full_before_the_first_look() -> anyhow::Result<()> {
    let (cluster, toy, running) = start().await?;
    looks(&toy, "first", 1).await?;
    assert_eq!(toy.seen.lock().secrets, Some(3));
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_is_looked_at_by_one_at_a_time() -> anyhow::Result<()> {
    let (cluster, toy, running) = start().await?;
    for number in 0..12 {
        act(&cluster, &format!("slow{number}"), "slow").await?;
    }
    for change in 0..5 {
        patch(&cluster.api::<ConfigMap>(), "slow0", json!({"data": {"change": change.to_string()}})).await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    looks(&toy, "slow11", 1).await?;
    looks(&toy, "slow0", 2).await?;
    assert!(!toy.seen.lock().twice, "never twice at the same time");
    assert_eq!(toy.seen.lock().running_max, 4, "several keys side by side, but not all");
    assert!(toy.seen.lock().looks["slow0"].len() <= 4, "changes while it is looked at are one more look");
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_fails_or_panics_is_tried_again_and_harms_nobody() -> anyhow::Result<()> {
    let (cluster, toy, running) = start().await?;
    act(&cluster, "bad", "panic").await?;
    act(&cluster, "sad", "fail").await?;
    act(&cluster, "good", "").await?;
    looks(&toy, "good", 1).await?;
    looks(&toy, "bad", 3).await?;
    let between = looks(&toy, "sad", 5).await?;
    let millis: Vec<_> = between.iter().map(Duration::as_millis).collect();
    assert_eq!(millis, [5, 10, 20, 40]);
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_look_may_ask_for_another_in_time() -> anyhow::Result<()> {
    let (cluster, toy, running) = start().await?;
    act(&cluster, "clock", "again").await?;
    assert_eq!(looks(&toy, "clock", 4).await?, [Duration::from_secs(10); 3]);
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_seen_by_the_next_look() -> anyhow::Result<()> {
    let (cluster, toy, running) = start().await?;
    act(&cluster, "parent", "children").await?;
    looks(&toy, "parent", 4).await?;
    tokio::time::sleep(SOON).await;
    let secrets = names(&cluster.api::<Secret>()).await?;
    assert_eq!(secrets.iter().filter(|name| name.starts_with("parent-")).count(), 3);
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_finalizer_keeps_is_seen_by_the_next_look() -> anyhow::Result<()> {
    let (cluster, toy, running) = start().await?;
    act(&cluster, "kept", "delete").await?;
    let (has_kept, _) = within("a delete", SOON, || async { Ok(toy.seen.lock().has_kept) }).await?;
    assert!(has_kept, "no event would bring it back");
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_looks_end() -> anyhow::Result<()> {
    let (cluster, toy, running) = start().await?;
    act(&cluster, "slow", "slow").await?;
    looks(&toy, "slow", 1).await?;
    let begun = Instant::now();
    running.stop().await;
    assert!(begun.elapsed() > Duration::from_millis(900) && begun.elapsed() < Duration::from_millis(1100));
    assert_eq!(toy.seen.lock().running.values().sum::<usize>(), 0, "no look was cut off");
    cluster.stop().await;
    Ok(())
}
