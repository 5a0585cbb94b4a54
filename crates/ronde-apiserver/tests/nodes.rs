//! Questions that only a node can answer, from the path to its door, without and with a node behind it.

use std::sync::Arc;

use axum::{body::Body, extract::Request, response::Response};
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use http_body_util::BodyExt as _;
use kube::Client;
use ronde_apiserver::{
    Apiserver,
    clock_and_ids::ClockAndIds,
    nodes::{NodeApi, PodRequest},
};
use serde_json::{Value, json};

/// Tells what it is asked; a log that is followed never ends.
struct Parrot;

impl NodeApi for Parrot {
    fn ask(&self, ask: PodRequest, request: Request) -> BoxFuture<'static, Response> {
        let follows = request.uri().query().is_some_and(|query| query.contains("follow=true"));
        let name = ask.pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let text = Bytes::from(format!("{name} {} {:?}", ask.user, ask.what));
        let body = if follows {
            Body::from_stream(stream::iter([Ok::<_, std::io::Error>(text)]).chain(stream::pending()))
        } else {
            Body::from(text)
        };
        async { Response::new(body) }.boxed()
    }
}

async fn send(client: &Client, method: &str, path: &str, body: Value) -> anyhow::Result<(u16, String)> {
    let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = client.send(request.body(kube::client::Body::from(body.to_string().into_bytes()))?).await?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(bytes.to_vec())?))
}

/// A server with a node, a pod on it, one that waits for a node, and one on a node that is gone.
async fn cluster() -> anyhow::Result<(Apiserver, Client)> {
    let server = Apiserver::in_memory(ClockAndIds::real()).await?;
    let client = Client::new(server.router(), "default");
    send(&client, "POST", "/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await?;
    for (name, node) in [("placed", "n1"), ("waiting", ""), ("lost", "n2")] {
        let spec = json!({"nodeName": node, "containers": [{"name": "app", "image": "x"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        let (status, answer) = send(&client, "POST", "/api/v1/namespaces/default/pods", pod).await?;
        assert_eq!(status, 201, "{answer}");
    }
    Ok((server, client))
}

async fn check(client: &Client, method: &str, path: &str, expected: (u16, &str)) -> anyhow::Result<()> {
    let path = format!("/api/v1/namespaces/default/pods/{path}");
    let (status, answer) = send(client, method, &path, Value::Null).await?;
    assert_eq!(status, expected.0, "{method} {path}: {answer}");
    assert!(answer.contains(expected.1), "{method} {path}: {answer}");
    Ok(())
}

#[tokio::test]
async fn without_a_node_the_answer_says_what_is_missing() -> anyhow::Result<()> {
    let (server, client) = cluster().await?;
    check(&client, "GET", "waiting/log", (204, "")).await?;
    check(&client, "GET", "placed/log", (503, "no node named `n1` is connected to this server")).await?;
    check(&client, "POST", "placed/exec", (503, "no node named `n1`")).await?;
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_node_is_asked_what_makes_sense_and_no_more() -> anyhow::Result<()> {
    let (server, client) = cluster().await?;
    server.connect_nodes(Arc::new(Parrot));
    check(&client, "GET", "placed/log?tailLines=5", (200, "placed ronde-admin Log { container: \"app\"")).await?;
    check(&client, "GET", "missing/log", (404, "pods \\\"missing\\\" not found")).await?;
    check(&client, "GET", "lost/log", (404, "nodes \\\"n2\\\" not found")).await?;
    check(&client, "GET", "waiting/log", (204, "")).await?;
    check(&client, "GET", "placed/log?container=x", (400, "container x is not valid for pod placed")).await?;
    check(&client, "GET", "placed/log?tailLines=-1", (422, "must be greater than or equal to 0")).await?;
    check(&client, "POST", "placed/log", (405, "does not allow this method")).await?;
    check(&client, "DELETE", "placed/exec", (405, "does not allow this method")).await?;
    for method in ["GET", "POST"] {
        for what in ["exec?stdout=1&command=ls", "attach?stdout=1", "portforward"] {
            check(&client, method, &format!("placed/{what}"), (400, "Upgrade request required")).await?;
        }
        check(&client, method, "waiting/exec?stdout=1", (400, "pod waiting does not have a host assigned")).await?;
    }
    check(&client, "POST", "placed/exec?stdout=1&dryRun=All", (400, "dryRun is not supported")).await?;
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_log_that_is_followed_ends_with_the_server() -> anyhow::Result<()> {
    let (server, client) = cluster().await?;
    server.connect_nodes(Arc::new(Parrot));
    let path = "/api/v1/namespaces/default/pods/placed/log?follow=true";
    let response = client.send(http::Request::get(path).body(kube::client::Body::empty())?).await?;
    let (read, ()) = tokio::join!(response.into_body().collect(), server.stop());
    assert!(read?.to_bytes().starts_with(b"placed"));
    Ok(())
}
