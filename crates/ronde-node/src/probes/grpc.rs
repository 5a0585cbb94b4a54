//! The gRPC health protocol (`grpc.health.v1.Health/Check`): one request over HTTP/2.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::{
    Reach,
    http::{dial_error, drive, shown},
    state::ProbeOutcome,
    url::authority,
};

/// An answer is a few bytes.
const ANSWER_BYTES_MAX: usize = 4096;
const SERVING: u8 = 1;
const UNIMPLEMENTED: &str = "12";
/// The tag of field 1 of the answer, a number.
const STATUS_TAG: u8 = 0x08;
/// The tag of field 1 of the question, a text.
const SERVICE_TAG: u8 = 0x0a;

/// Asks whether a service is serving; an empty name stands for the whole server.
pub(super) async fn check<R: Reach>(reach: &R, host: &str, port: u16, service: &str) -> ProbeOutcome {
    let authority = authority(host, port);
    let stream = match reach.connect(host, port).await {
        Ok(stream) => stream,
        Err(error) => {
            let why = dial_error(&authority, &error);
            return ProbeOutcome::Failure(format!("error: failed to connect service at \"{authority}\": {why}"));
        }
    };
    match ask(stream, &authority, service).await {
        Ok(outcome) => outcome,
        Err(error) => ProbeOutcome::Failure(format!("error: health rpc probe failed: {error}")),
    }
}

async fn ask<S>(stream: S, authority: &str, service: &str) -> Result<ProbeOutcome, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let request = Request::post(format!("http://{authority}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", super::handler::PROBE_AGENT)
        .body(Full::new(question(service)))
        .map_err(|error| error.to_string())?;
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| shown(&error))?;
    let asked = async {
        let response = sender.send_request(request).await.map_err(|error| shown(&error))?;
        read(response).await
    };
    drive(connection, asked).await
}

async fn read(response: Response<Incoming>) -> Result<ProbeOutcome, String> {
    let headers = response.headers().clone();
    let body =
        Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let find = |name: &str| text(&trailers, name).or_else(|| text(&headers, name));
    let code = find("grpc-status").unwrap_or_default();
    if code == UNIMPLEMENTED {
        let why = find("grpc-message").unwrap_or_default();
        return Ok(ProbeOutcome::Failure(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {why}"
        )));
    }
    if code != "0" {
        return Err(format!("rpc error: code = {code} desc = {}", find("grpc-message").unwrap_or_default()));
    }
    let status = status_of(&body.to_bytes());
    if status == SERVING {
        return Ok(ProbeOutcome::Success);
    }
    let name = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"].get(usize::from(status)).unwrap_or(&"UNKNOWN");
    Ok(ProbeOutcome::Failure(format!("service unhealthy (responded with \"{name}\")")))
}

/// The message `HealthCheckRequest`, with gRPC's prefix of a flag and a length.
fn question(service: &str) -> Bytes {
    let mut message = BytesMut::new();
    if !service.is_empty() {
        message.put_u8(SERVICE_TAG);
        let mut length = service.len();
        while length >= 0x80 {
            message.put_u8(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
            length >>= 7;
        }
        message.put_u8(u8::try_from(length).unwrap_or_default());
        message.put_slice(service.as_bytes());
    }
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or_default());
    framed.put(message);
    framed.freeze()
}

/// The status in a `HealthCheckResponse`; zero is not written.
fn status_of(framed: &[u8]) -> u8 {
    match framed.get(5..) {
        Some([STATUS_TAG, status, ..]) => *status,
        _ => 0,
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}
