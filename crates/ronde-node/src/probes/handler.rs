//! Performs one probe: exec, httpGet, tcpSocket or grpc, within its time.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ExecAction, HTTPGetAction, Probe, TCPSocketAction};
use tokio::time::timeout;

use super::{
    Reach, Target, grpc,
    http::{self, dial_error},
    state::ProbeOutcome,
    url::{Url, authority, port_of},
};
use crate::env::expand;

pub(super) const PROBE_AGENT: &str = "kube-probe/1.34";
const TIMEOUT_SECONDS_DEFAULT: i32 = 1;
const REDIRECTS_MAX: usize = 10;
/// How much of a command's output goes into an event.
const OUTPUT_BYTES_MAX: usize = 10 * 1024;

pub(super) async fn perform<R: Reach>(target: &Target<R>, probe: &Probe) -> ProbeOutcome {
    let seconds = probe.timeout_seconds.filter(|seconds| *seconds > 0).unwrap_or(TIMEOUT_SECONDS_DEFAULT);
    let limit = Duration::from_secs(seconds.unsigned_abs().into());
    if let Some(action) = &probe.exec {
        exec(target, action, limit).await
    } else if let Some(action) = &probe.http_get {
        http_get(target, action, limit).await
    } else if let Some(action) = &probe.tcp_socket {
        tcp(target, action, limit).await
    } else if let Some(action) = &probe.grpc {
        let Ok(port) = u16::try_from(action.port) else { return invalid_port(action.port) };
        let service = action.service.as_deref().unwrap_or_default();
        let checked = timeout(limit, grpc::check(&target.reach, &target.pod_ip, port, service)).await;
        checked.unwrap_or_else(|_| {
            ProbeOutcome::Failure(format!("timeout: health rpc did not complete within {seconds}s"))
        })
    } else {
        ProbeOutcome::Error(format!("missing probe handler for {}:{}", target.pod, target.container.name))
    }
}

async fn exec<R: Reach>(target: &Target<R>, action: &ExecAction, limit: Duration) -> ProbeOutcome {
    // A probe's command knows the variables that the manifest gives as they are, and no others.
    let literals = target.container.env.iter().flatten().filter(|variable| variable.value_from.is_none());
    let literals: Vec<_> =
        literals.map(|variable| (&variable.name, variable.value.clone().unwrap_or_default())).collect();
    let find = |name: &str| literals.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
    let command: Vec<String> = action.command.iter().flatten().map(|word| expand(word, find)).collect();
    match timeout(limit, target.reach.exec(&command)).await {
        Err(_) => {
            let seconds = limit.as_secs();
            ProbeOutcome::Failure(format!("command timed out: \"{}\" timed out after {seconds}s", command.join(" ")))
        }
        Ok(Err(error)) => ProbeOutcome::Error(error.to_string()),
        Ok(Ok(ended)) if ended.code == 0 => ProbeOutcome::Success,
        Ok(Ok(ended)) => {
            let output = &ended.output[..ended.output.len().min(OUTPUT_BYTES_MAX)];
            ProbeOutcome::Failure(String::from_utf8_lossy(output).into_owned())
        }
    }
}

async fn tcp<R: Reach>(target: &Target<R>, action: &TCPSocketAction, limit: Duration) -> ProbeOutcome {
    let port = match port_of(&action.port, &target.container) {
        Ok(port) => port,
        Err(error) => return ProbeOutcome::Error(error),
    };
    let host = action.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(&target.pod_ip);
    let authority = authority(host, port);
    match timeout(limit, target.reach.connect(host, port)).await {
        Ok(Ok(_)) => ProbeOutcome::Success,
        Ok(Err(error)) => ProbeOutcome::Failure(dial_error(&authority, &error)),
        Err(_) => ProbeOutcome::Failure(format!("dial tcp {authority}: i/o timeout")),
    }
}

async fn http_get<R: Reach>(target: &Target<R>, action: &HTTPGetAction, limit: Duration) -> ProbeOutcome {
    let url = match Url::for_action(action, &target.container, &target.pod_ip) {
        Ok(url) => url,
        Err(error) => return ProbeOutcome::Error(error),
    };
    let shown = url.text();
    timeout(limit, follow(target, action, url)).await.unwrap_or_else(|_| {
        let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        ProbeOutcome::Failure(format!("Get \"{shown}\": {why}"))
    })
}

/// Asks, and follows redirects that stay on the host.
async fn follow<R: Reach>(target: &Target<R>, action: &HTTPGetAction, mut url: Url) -> ProbeOutcome {
    let headers = match http::headers(action.http_headers.as_deref(), PROBE_AGENT) {
        Ok(headers) => headers,
        Err(error) => return ProbeOutcome::Error(error),
    };
    let host = url.host.clone();
    for _ in 0..REDIRECTS_MAX {
        let answer = match http::get(&target.reach, &url, &headers).await {
            Ok(answer) => answer,
            Err(error) => return ProbeOutcome::Failure(format!("Get \"{}\": {error}", url.text())),
        };
        let code = answer.status.as_u16();
        let next = answer.location.and_then(|location| url.join(&location));
        match (code, next) {
            (301 | 302 | 303 | 307 | 308, Some(next)) if next.host == host => url = next,
            (200..=299, _) => return ProbeOutcome::Success,
            (300..=399, _) => {
                return ProbeOutcome::Warning(format!("Probe terminated redirects, Response body: {}", answer.body));
            }
            _ => return ProbeOutcome::Failure(format!("HTTP probe failed with statuscode: {code}")),
        }
    }
    ProbeOutcome::Failure(format!("Get \"{}\": stopped after {REDIRECTS_MAX} redirects", url.text()))
}

fn invalid_port(port: i32) -> ProbeOutcome {
    ProbeOutcome::Error(format!("invalid port number: {port}"))
}
