//! `/livez`, `/readyz` and `/metrics` of an operator, over plain HTTP: for a kubelet and for Prometheus.
//!
//! Tells numbers and states, no names of users' objects but those of a look that is stuck, and takes no orders.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use ronde_runtime::telemetry::{Telemetry, health::Check};
use ronde_text::metrics;
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

/// A kubelet, a few Prometheus servers, and people; each holds some 20 KB.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection is kept, idle or not; a scrape takes milliseconds, and the next may come on a new one.
const CONNECTION_MAX: Duration = Duration::from_secs(60);
/// How long nobody is accepted after that has failed: file descriptors may have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Begins to listen; what it returns answers for as long as it is polled.
pub async fn listen(address: SocketAddr, telemetry: Telemetry) -> io::Result<impl Future<Output = ()>> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "serving /livez, /readyz and /metrics");
    Ok(accept(listener, telemetry))
}

async fn accept(listener: TcpListener, telemetry: Telemetry) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        match (listener.accept().await, places.clone().try_acquire_owned()) {
            (Ok((stream, _)), Ok(place)) => {
                let telemetry = telemetry.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = answer(&telemetry, request.method(), request.uri().path(), request.uri().query());
                    async { Ok::<_, http::Error>(answer) }
                });
                tokio::spawn(async move {
                    let _ =
                        timeout(CONNECTION_MAX, http1::Builder::new().serve_connection(TokioIo::new(stream), service))
                            .await;
                    drop(place);
                });
            }
            (Ok(_), Err(_)) => tracing::warn!(limit = CONNECTIONS_MAX, "too many connections: closing a new one"),
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn answer(telemetry: &Telemetry, method: &Method, path: &str, query: Option<&str>) -> Response<Full<Bytes>> {
    let is_verbose = query.is_some_and(|query| query.split('&').any(|word| word.split('=').next() == Some("verbose")));
    let now = Instant::now();
    let (status, kind, text) = match path {
        _ if !matches!(*method, Method::GET | Method::HEAD) => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is answered here\n".to_owned())
        }
        "/livez" => told("livez", &telemetry.health.liveness(now), is_verbose),
        "/readyz" => told("readyz", &telemetry.health.readiness(now), is_verbose),
        "/metrics" => {
            (StatusCode::OK, metrics::CONTENT_TYPE, telemetry.metrics.render(ronde_control::metrics::of_operator()))
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "there are /livez, /readyz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

/// Tells checks as the API server does: `ok`, or a line for each when it was asked for or something is wrong.
fn told(name: &str, checks: &[Check], is_verbose: bool) -> (StatusCode, &'static str, String) {
    let is_good = checks.iter().all(|check| check.state.is_ok());
    let line = |check: &Check| match &check.state {
        Ok(how) => format!("[+]{} ok: {how}\n", check.name),
        Err(why) => format!("[-]{} failed: {why}\n", check.name),
    };
    let lines: String = checks.iter().map(line).collect();
    let (status, verdict) =
        if is_good { (StatusCode::OK, "passed") } else { (StatusCode::SERVICE_UNAVAILABLE, "failed") };
    let text = if is_good && !is_verbose { "ok".to_owned() } else { format!("{lines}{name} check {verdict}\n") };
    (status, "text/plain; charset=utf-8", text)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use ronde_runtime::telemetry::health::Role;

    use super::*;

    async fn ask(telemetry: &Telemetry, method: Method, path: &str) -> String {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let answer = answer(telemetry, &method, path, query);
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await.expect("a body").to_bytes();
        format!("{status} {}", String::from_utf8_lossy(&text))
    }

    #[tokio::test]
    async fn who_waits_says_for_what() {
        let telemetry = Telemetry::default();
        let get = async |path: &str| ask(&telemetry, Method::GET, path).await;
        insta::assert_snapshot!(get("/livez").await, @"200 ok");
        insta::assert_snapshot!(get("/readyz").await, @r"
        503 [-]api-server failed: the API server has not answered yet
        [-]leadership failed: waiting for the lease
        [+]caches ok: not needed now
        [+]loops ok: turning
        readyz check failed
        ");
        telemetry.health.note_answer(Instant::now());
        telemetry.health.set_role(Role::Standby { holder: "ronde-5f".to_owned() });
        insta::assert_snapshot!(get("/readyz").await, @"200 ok");
        insta::assert_snapshot!(get("/readyz?verbose").await, @r"
        200 [+]api-server ok: answers
        [+]leadership ok: standby: `ronde-5f` is active
        [+]caches ok: not needed now
        [+]loops ok: turning
        readyz check passed
        ");
        insta::assert_snapshot!(get("/").await, @"404 there are /livez, /readyz and /metrics");
        insta::assert_snapshot!(ask(&telemetry, Method::POST, "/livez").await, @"405 only GET is answered here");
    }

    #[tokio::test]
    async fn every_metric_is_told_from_the_beginning() {
        let page = ask(&Telemetry::default(), Method::GET, "/metrics").await;
        for metric in ronde_control::metrics::of_operator() {
            assert!(page.contains(&format!("# TYPE {} {}\n", metric.name, metric.kind.as_str())), "{}", metric.name);
        }
    }
}
