//! kube-rs controllers and reflectors against the server in one process, for hours of simulated time.
//!
//! The clock is paused: it jumps to the next timer whenever nothing else is to be done. Objects carry the simulated
//! time, so a controller that computes its timers from timestamps behaves as it would in real hours.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, future::ready};
use http::Request;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Pod, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    client::Body,
    runtime::{Controller, WatchStreamExt as _, controller::Action, reflector, watcher},
};
use ronde_apiserver::{Apiserver, clock_and_ids::ClockAndIds};
use serde_json::{Value, json};
use tokio::time::Instant;

const HOURS: u64 = 6;
const MINUTES: usize = 6 * 60;

/// A clock whose time is tokio's, from a fixed start, and whose chance is a counter.
fn simulated() -> ClockAndIds {
    let start = Instant::now();
    let epoch = Timestamp::from_second(1_800_000_000).expect("a time");
    let counter = AtomicUsize::new(0);
    ClockAndIds::new(
        move || epoch + start.elapsed(),
        move || {
            (counter.fetch_add(1, Ordering::Relaxed) as u128).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
        },
    )
}

async fn cluster() -> anyhow::Result<(Apiserver, Client)> {
    let server = Apiserver::in_memory(simulated()).await?;
    let client = Client::new(server.router(), "default");
    Ok((server, client))
}

/// Counts in an annotation and comes back every minute.
async fn tick(map: Arc<ConfigMap>, api: Arc<Api<ConfigMap>>) -> Result<Action, kube::Error> {
    let ticks: usize = map.annotations().get("ticks").and_then(|text| text.parse().ok()).unwrap_or(0);
    let patch = json!({"metadata": {"annotations": {"ticks": (ticks + 1).to_string()}}});
    if ticks < MINUTES {
        api.patch(&map.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn a_controller_keeps_its_pace_for_hours() -> anyhow::Result<()> {
    let (server, client) = cluster().await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let clock = json!({"metadata": {"name": "clock"}});
    maps.create(&PostParams::default(), &serde_json::from_value(clock)?).await?;
    let only = watcher::Config::default().fields("metadata.name=clock");
    let reconciled = Arc::new(AtomicUsize::new(0));
    let counter = reconciled.clone();
    let controller = Controller::new(maps.clone(), only).run(
        move |map, api| {
            counter.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                tick(map, api).await
            }
        },
        |_, _, _| Action::requeue(Duration::from_secs(5)),
        Arc::new(maps.clone()),
    );
    let running = tokio::spawn(controller.for_each(|_| ready(())));
    let start = Instant::now();
    tokio::time::sleep(Duration::from_secs(HOURS * 3600 + 600)).await;
    let ticks: usize = maps.get("clock").await?.annotations()["ticks"].parse()?;
    assert_eq!(ticks, MINUTES, "a tick a minute for {HOURS} hours");
    assert!(start.elapsed() >= Duration::from_secs(HOURS * 3600));
    assert!(reconciled.load(Ordering::Relaxed) >= ticks);
    running.abort();
    server.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reflector_sees_exactly_what_is_there() -> anyhow::Result<()> {
    let (server, client) = cluster().await?;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let (reader, writer) = reflector::store();
    let stream = watcher(pods.clone(), watcher::Config::default().streaming_lists());
    let watching = tokio::spawn(reflector(writer, stream.default_backoff()).touched_objects().for_each(|_| ready(())));
    let mut chance = 7_u64;
    for minute in 0..60 * HOURS {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let name = format!("p{}", (chance >> 40) % 20);
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
        match pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 && minute % 2 == 0 => {
                pods.delete(&name, &DeleteParams::default()).await?;
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let patch = json!({"metadata": {"labels": {"minute": minute.to_string()}}});
                pods.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
            }
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let version = |pod: &Pod| (pod.name_any(), pod.resource_version().unwrap_or_default());
    let listed: BTreeSet<_> = pods.list(&ListParams::default()).await?.iter().map(version).collect();
    let reflected: BTreeSet<_> = reader.state().iter().map(|pod| version(pod)).collect();
    assert_eq!(reflected, listed);
    assert!(!listed.is_empty());
    watching.abort();
    server.stop().await;
    Ok(())
}

/// One more than the log of a collection keeps.
const EVENTS: usize = 10_001;
/// As many writes under way as share a sync.
const TOGETHER: usize = 256;

/// Reads an answer that is not what kube-rs expects.
async fn ask(client: &Client, path: &str) -> anyhow::Result<(u16, Value)> {
    let answer = client.send(Request::get(path).body(Body::empty())?).await?;
    let (status, mut body) = (answer.status().as_u16(), answer.into_body());
    let first = body.frame().await.context("an empty answer")??;
    Ok((status, serde_json::from_slice(first.data_ref().context("no data")?)?))
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_a_forgotten_version_is_told_to_begin_anew() -> anyhow::Result<()> {
    let (server, client) = cluster().await?;
    let path = "/api/v1/namespaces/default/endpoints";
    let (many, none) = (Api::<Endpoints>::default_namespaced(client.clone()), PostParams::default());
    let create = async |number: usize| {
        let one = json!({"metadata": {"name": format!("e{number:05}")}});
        anyhow::Ok(many.create(&none, &serde_json::from_value(one)?).await?.resource_version().unwrap_or_default())
    };
    let first = create(0).await?;
    create(1).await?;
    let (_, page) = ask(&client, &format!("{path}?limit=1")).await?;
    let token = page["metadata"]["continue"].as_str().context("a token")?;
    let writes = futures::stream::iter(2..EVENTS + 2).map(create).buffer_unordered(TOGETHER);
    writes.try_for_each(|_| ready(Ok(()))).await?;

    let (status, event) = ask(&client, &format!("{path}?watch=1&resourceVersion={first}")).await?;
    assert_eq!((status, &event["type"]), (200, &json!("ERROR")), "{event}");
    assert_eq!((&event["object"]["code"], &event["object"]["reason"]), (&json!(410), &json!("Expired")), "{event}");
    assert!(event["object"]["message"].as_str().is_some_and(|text| text.starts_with("too old resource version: ")));
    let exact = format!("{path}?resourceVersion={first}&resourceVersionMatch=Exact");
    let (status, answer) = ask(&client, &exact).await?;
    assert_eq!((status, &answer["kind"], &answer["reason"]), (410, &json!("Status"), &json!("Expired")), "{answer}");
    let (status, answer) = ask(&client, &format!("{path}?limit=1&continue={token}")).await?;
    assert_eq!((status, &answer["reason"]), (410, &json!("Expired")), "{answer}");
    // The rest can be had with the token in the answer, though not as it was then.
    let token = answer["metadata"]["continue"].as_str().context("another token")?;
    let (status, page) = ask(&client, &format!("{path}?limit=1&continue={token}")).await?;
    assert_eq!((status, &page["items"][0]["metadata"]["name"]), (200, &json!("e00001")), "{page}");
    assert!(page["metadata"]["resourceVersion"].as_str().context("a version")?.parse::<u64>()? > EVENTS as u64);
    server.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn bookmarks_of_a_quiet_watch_follow_the_store() -> anyhow::Result<()> {
    let (server, client) = cluster().await?;
    let (maps, secrets) = (Api::<ConfigMap>::default_namespaced(client.clone()), Api::default_namespaced(client));
    let mut events = maps.watch(&WatchParams::default(), "0").await?.boxed();
    for number in 0..3 {
        let mut secret = Secret::default();
        secret.metadata.name = Some(format!("other-{number}"));
        let written = secrets.create(&PostParams::default(), &secret).await?;
        let event = events.next().await.transpose()?;
        let Some(WatchEvent::Bookmark(bookmark)) = event else { anyhow::bail!("no bookmark: {event:?}") };
        let (told, written): (u64, u64) =
            (bookmark.metadata.resource_version.parse()?, written.resource_version().unwrap_or_default().parse()?);
        assert!(told >= written, "{told} after {written} was written");
    }
    drop(events);
    server.stop().await;
    Ok(())
}
