//! Answers what the API server asks of the node: logs, exec, attach, port-forward.
//!
//! The protocols are in [`crate::streams`], the files in [`crate::logs`]; here they meet the pods of this machine.

mod attach;
mod exec;
mod terminal;

use std::{io, sync::Arc};

use axum::{body::Body, extract::Request, response::Response};
use fs_err as fs;
use futures::{FutureExt as _, future::BoxFuture};
use http::{StatusCode, header};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use ronde_apiserver::nodes::{LogOptions, NodeApi, PodRequest, What};
use tokio::{net::TcpStream, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    logs::{self, read::LogSource},
    node::Node,
    streams::{Forward, Sessions},
    supervisor::{
        client::{self, News},
        folder::PodFolder,
        record::Record,
    },
};

/// The node's side of the API server's door.
pub struct KubeletApi {
    node: Arc<Node>,
    sessions: Sessions,
}

impl KubeletApi {
    /// Terminals and forwarded ports end with `stop`.
    pub fn new(node: Arc<Node>, stop: CancellationToken) -> Self {
        Self { node, sessions: Sessions::new(stop) }
    }

    fn answer(&self, ask: PodRequest, request: Request) -> Response {
        let pod: Pod = serde_json::from_value(ask.pod).unwrap_or_default();
        let name = pod.metadata.name.clone().unwrap_or_default();
        let folder = self.node.pod_folder(pod.metadata.uid.as_deref().unwrap_or_default());
        match ask.what {
            What::Log { container, options } => {
                log(&folder, &name, &pod.status.unwrap_or_default(), &container, options)
            }
            What::Exec { container, command, terminal } => {
                let exec = exec::Request { program: self.node.program.clone(), folder, container, command };
                self.sessions.serve_command(request, terminal, move |terminal| exec::run(exec, terminal))
            }
            What::Attach { container, terminal } => {
                self.sessions.serve_command(request, terminal, move |terminal| attach::run(folder, container, terminal))
            }
            What::PortForward { ports } => {
                let node = self.node.clone();
                let connect = move |port| connect(node.clone(), folder.clone(), port);
                self.sessions.serve_port_forward(request, Forward { pod: name, ports }, connect)
            }
        }
    }
}

impl NodeApi for KubeletApi {
    fn ask(&self, ask: PodRequest, request: Request) -> BoxFuture<'static, Response> {
        let answer = self.answer(ask, request);
        async move { answer }.boxed()
    }
}

fn log(folder: &PodFolder, pod: &str, status: &PodStatus, container: &str, options: LogOptions) -> Response {
    let run = match logs::run::find(pod, status, container, options.previous) {
        Ok(run) => run,
        Err(why) => return bad_request(&why),
    };
    let record = folder.record(container, run.attempt);
    let has_ended = Record::read(&record).map_or(true, |record| record.end.is_some());
    let (ended, is_ended) = watch::channel(has_ended);
    if !has_ended && options.follow {
        let (folder, container) = (folder.clone(), container.to_owned());
        tokio::spawn(async move {
            // Whoever reads the log is gone when the other end is.
            tokio::select! {
                () = until_ended(&folder, &container, run.attempt) => {}
                () = ended.closed() => {}
            }
            ended.send_replace(true);
        });
    }
    let source = LogSource { folder: folder.logs(container), attempt: run.attempt, ended: is_ended };
    let mut response = Response::new(Body::from_stream(logs::read::read(source, options)));
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    response
}

/// Waits until an attempt has ended, or its supervisor has.
async fn until_ended(folder: &PodFolder, container: &str, attempt: u32) {
    let Ok(mut news) = News::subscribe(folder).await else { return };
    while Record::read(&folder.record(container, attempt)).is_ok_and(|record| record.end.is_none()) {
        if news.next().await.is_err() {
            return;
        }
    }
}

/// Connects to a port of a pod, as its own processes would.
async fn connect(node: Arc<Node>, folder: PodFolder, port: u16) -> io::Result<TcpStream> {
    let address = (std::net::Ipv4Addr::LOCALHOST, port).into();
    let pid = client::living(&folder)?.ok_or_else(|| io::Error::other("the pod is not running"))?;
    match &node.network {
        Some(network) => {
            let netns: std::os::fd::OwnedFd = fs::File::open(format!("/proc/{pid}/ns/net"))?.into_parts().0.into();
            network.connect(Some(std::os::fd::AsFd::as_fd(&netns)), address).await
        }
        None => TcpStream::connect(address).await,
    }
}

fn bad_request(why: &str) -> Response {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": why, "reason": "BadRequest", "code": 400,
    });
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
