//! The work that both servers are given.

use std::time::Instant;

use futures::future::try_join_all;
use http::Request;
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::{peer::Peer, watchers::Watchers};

const CLIENTS: usize = 16;
const CREATES_PER_CLIENT: usize = 250;
const PODS: usize = 5_000;
const LISTS: usize = 10;
const WATCHERS: usize = 200;
const UPDATES: usize = 100;
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
    let version = made["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let path = format!("{MAPS_PATH}?watch=1&resourceVersion={version}&fieldSelector=metadata.name%3Dfan");
    let mut watchers = Watchers::open(peer, &path, WATCHERS).await?;
    let (mut answered, mut seen) = (Vec::new(), Vec::new());
    for number in 1..=UPDATES {
        let patch = json!({"data": {"n": number.to_string()}});
        let started = Instant::now();
        let update = async {
            send(&client, "PATCH", &format!("{MAPS_PATH}/fan"), &patch).await?;
            anyhow::Ok(Instant::now())
        };
        let (answer, sight) = tokio::try_join!(update, watchers.all_see())?;
        answered.push((answer - started).as_secs_f64() * 1000.0);
        seen.push((sight - started).as_secs_f64() * 1000.0);
    }
    Ok(FanOut { answered_ms: median(answered), seen_ms: median(seen) })
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
