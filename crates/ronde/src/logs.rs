//! `ronde logs`: writes what a pod's container has said to stdout, as it is, once or as it goes on.

use futures::AsyncReadExt as _;

use crate::{
    Context,
    args::LogsArgs,
    client::{self, ClientError, encode},
    failure::{Answer, Outcome},
    printer::Reader,
};

/// What is written at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Runs the verb.
pub fn run(args: &LogsArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let cluster = &args.cluster;
        let client = client::connect(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await?;
        let request = client::get(&path(args, client.default_namespace()), "*/*");
        let mut log = client::stream_bytes(&client, request).await?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = log.read(&mut chunk).await;
            let read = read.map_err(|error| ClientError::Unreachable { source: error.into() })?;
            if read == 0 || context.printer.bytes(&chunk[..read]) == Reader::Gone {
                return Ok(Answer::Done);
            }
        }
    })
}

fn path(args: &LogsArgs, default_namespace: &str) -> String {
    let namespace = args.namespace.as_deref().unwrap_or(default_namespace);
    let pod = args.pod.strip_prefix("pod/").unwrap_or(&args.pod);
    let follow = args.follow;
    let mut path = format!("/api/v1/namespaces/{}/pods/{}/log?follow={follow}", encode(namespace), encode(pod));
    if let Some(container) = &args.container {
        path.push_str(&format!("&container={}", encode(container)));
    }
    if let Some(lines) = args.tail {
        path.push_str(&format!("&tailLines={lines}"));
    }
    if args.previous {
        path.push_str("&previous=true");
    }
    path
}
