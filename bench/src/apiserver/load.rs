//! The work that both servers are given.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use http::Request;
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::peer::Peer;

const CLIENTS: usize = 16;
const CREATES_PER_CLIENT: usize = 250;
const PODS: usize = 5_000;
const LISTS: usize = 10;
const WATCHERS: usize = 200;
const UPDATES: usize = 20;
const PODS_PATH: &str = "/api/v1/namespaces/bench/pods";
const MAPS_PATH: &str = "/api/v1/namespaces/default/configmaps";

/// Sixteen clients, each with its own connection, create pods one after the other.
pub async fn creates_per_second(peer: &Peer) -> anyhow::Result<f64> {
    let client = peer.client().await?;
    prepare(&client).await?;
    let clients = try_join_all((0..CLIENTS).map(|_| peer.client())).await?;
    let started = Instant::now();
    let work = clients
        .into_iter()
        .enumerate()
        .map(|(number, client)| tokio::spawn(create_pods(client, number * CREATES_PER_CLIENT, CREATES_PER_CLIENT)));
    for done in try_join_all(work).await? {
        done?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let made = CLIENTS * CREATES_PER_CLIENT;
    create_pods(client, made, PODS - made).await?;
    Ok(made as f64 / seconds)
}

/// The namespace and the service account that pods need; ours makes the account itself, the real one by a controller.
async fn prepare(client: &Client) -> anyhow::Result<()> {
    send(client, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "bench"}})).await?;
    let account = json!({"metadata": {"name": "default"}});
    match send(client, "POST", "/api/v1/namespaces/bench/serviceaccounts", &account).await {
        Err(error) if error.to_string().contains("AlreadyExists") => Ok(()),
        made => made.map(drop),
    }
}

async fn create_pods(client: Client, first: usize, count: usize) -> anyhow::Result<()> {
    for number in first..first + count {
        send(&client, "POST", PODS_PATH, &pod(number)).await?;
    }
    Ok(())
}

/// A pod of a usual size.
fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("worker-{number}"), "labels": {"app": "bench", "index": number.to_string()}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "main", "image": "registry.example/training:1.0", "command": ["python", "train.py"],
                "env": [{"name": "RANK", "value": number.to_string()}, {"name": "SIZE", "value": "5000"}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
            }],
        },
    })
}

/// Reads all pods in one answer, as bytes: what the client makes of them is not the server's time.
pub async fn list_pods_ms(peer: &Peer) -> anyhow::Result<f64> {
    let client = peer.client().await?;
    let mut times = Vec::new();
    for _ in 0..LISTS {
        let started = Instant::now();
        let answer = send(&client, "GET", PODS_PATH, &Value::Null).await?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
        anyhow::ensure!(answer.len() > PODS * 500, "the list is too short: {} bytes", answer.len());
    }
    Ok(median(times))
}

/// How long after it was sent one update was answered, and had been seen by the last watcher.
pub struct FanOut {
    pub answered_ms: f64,
    pub seen_ms: f64,
}

/// Updates one object and waits until every watcher has seen it.
pub async fn fan_out(peer: &Peer) -> anyhow::Result<FanOut> {
    let client = peer.client().await?;
    let made = send(&client, "POST", MAPS_PATH, &json!({"metadata": {"name": "fan"}, "data": {"n": "0"}})).await?;
    let made: Value = serde_json::from_slice(&made)?;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let (seen, mut sightings) = unbounded_channel();
    let path = format!("{MAPS_PATH}?watch=1&resourceVersion={version}&fieldSelector=metadata.name%3Dfan");
    for _ in 0..WATCHERS {
        let (watcher, path, seen) = (peer.client().await?, path.clone(), seen.clone());
        let response = watcher.send(Request::get(&path).body(Body::empty())?).await?;
        tokio::spawn(count_lines(response.into_body(), seen, watcher));
    }
    let (mut answered, mut last_seen) = (Vec::new(), Vec::new());
    for number in 1..=UPDATES {
        let started = Instant::now();
        let patch = json!({"data": {"n": number.to_string()}});
        let update = async {
            send(&client, "PATCH", &format!("{MAPS_PATH}/fan"), &patch).await?;
            anyhow::Ok(started.elapsed())
        };
        let (answer, sight) = tokio::try_join!(update, all_see(started, &mut sightings))?;
        answered.push(answer.as_secs_f64() * 1000.0);
        last_seen.push(sight.as_secs_f64() * 1000.0);
    }
    Ok(FanOut { answered_ms: median(answered), seen_ms: median(last_seen) })
}

/// Waits for a sighting of every watcher; returns how long after the start the last one was.
async fn all_see(started: Instant, sightings: &mut UnboundedReceiver<()>) -> anyhow::Result<Duration> {
    for _ in 0..WATCHERS {
        let waited = tokio::time::timeout(Duration::from_secs(30), sightings.recv()).await?;
        anyhow::ensure!(waited.is_some(), "all watchers are gone");
    }
    Ok(started.elapsed())
}

/// Reports every event line of a watch. The client is kept so that its connection stays open.
async fn count_lines(mut body: Body, seen: UnboundedSender<()>, _client: Client) {
    while let Some(Ok(frame)) = body.frame().await {
        let lines = frame.data_ref().map_or(0, |data| data.split(|byte| *byte == b'\n').count() - 1);
        for _ in 0..lines {
            if seen.send(()).is_err() {
                return;
            }
        }
    }
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> anyhow::Result<Vec<u8>> {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let response = client.send(request.body(Body::from(bytes))?).await?;
    let status = response.status();
    let answer = response.into_body().collect().await?.to_bytes();
    anyhow::ensure!(status.is_success(), "{method} {path}: {status}: {}", String::from_utf8_lossy(&answer));
    Ok(answer.to_vec())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
