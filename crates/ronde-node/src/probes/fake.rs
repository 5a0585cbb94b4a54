//! A container for the tests whose answers are written down beforehand.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::stream::Iter;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{io::DuplexStream, time::sleep};
use tokio_rustls::TlsAcceptor;

use super::{Executed, Reach};

/// The frames of an answer, one after the other.
type Frames = StreamBody<Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

/// Commands are verbs of the test: `ok`, `fail`, `hang`, `none`.
#[derive(Clone, Default)]
pub(super) struct Fake {
    /// One by one for the command `next`; the last one stays.
    pub script: Arc<Mutex<VecDeque<&'static str>>>,
    /// Who was asked for what, and when.
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn note(&self, what: String) {
        self.asked.lock().expect("one thread").push(what);
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("one thread"))
    }
}

impl Reach for Fake {
    type Stream = DuplexStream;

    async fn connect(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        self.note(format!("{host}:{port}"));
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        match port {
            80 => drop(tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(theirs), service_fn(answer)),
            )),
            443 => drop(tokio::spawn(async move {
                let stream = acceptor().accept(theirs).await.expect("TLS");
                let server = hyper::server::conn::http1::Builder::new();
                server.serve_connection(TokioIo::new(stream), service_fn(answer)).await
            })),
            50 => drop(tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(theirs), service_fn(health)),
            )),
            7 => {}
            9 => sleep(Duration::from_secs(3600)).await,
            _ => return Err(io::Error::from_raw_os_error(111)),
        }
        Ok(ours)
    }

    async fn exec(&self, command: &[String]) -> io::Result<Executed> {
        self.note(command.join(" "));
        let mut verb = command.last().cloned().unwrap_or_default();
        if verb == "next" {
            let mut script = self.script.lock().expect("one thread");
            verb =
                if script.len() > 1 { script.pop_front() } else { script.front().copied() }.unwrap_or("ok").to_owned();
        }
        match verb.as_str() {
            "hang" => sleep(Duration::from_secs(3600)).await,
            "none" => return Err(io::Error::other("exec: \"none\": executable file not found in $PATH")),
            _ => {}
        }
        Ok(Executed { code: i32::from(verb == "fail"), output: b"output".to_vec() })
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name: &str| request.headers().get(name).map_or("", |value| value.to_str().unwrap_or("")).to_owned();
    let (code, location) = match request.uri().path() {
        "/ok" => (200, ""),
        "/moved" => (302, "/ok"),
        "/near" => (302, "ok?x"),
        "/other" => (302, "http://example.com/ok"),
        "/same" => (307, "http://10.0.0.1:80/ok"),
        "/loop" => (302, "/loop"),
        "/auth" if header("authorization") == "Bearer t" && header("host") == "me" => (204, ""),
        "/plain"
            if header("host") == "10.0.0.1:80"
                && header("user-agent") == "kube-probe/1.34"
                && header("accept") == "*/*" =>
        {
            (200, "")
        }
        "/slow" => {
            sleep(Duration::from_secs(5)).await;
            (200, "")
        }
        _ => (500, ""),
    };
    let mut response = Response::builder().status(code);
    if !location.is_empty() {
        response = response.header("location", location);
    }
    Ok(response.body(Full::from("body")).expect("a response"))
}

/// A gRPC health service: `down` does not serve, `odd` is not implemented.
async fn health(request: Request<Incoming>) -> Result<Response<Frames>, Infallible> {
    let asked = request.into_body().collect().await.expect("a question").to_bytes();
    let service = String::from_utf8_lossy(asked.get(7..).unwrap_or_default()).into_owned();
    let (code, status) = match service.as_str() {
        "" => ("0", 1_u8),
        "down" => ("0", 2),
        _ => ("12", 0),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    let data = Frame::data(Bytes::from(vec![0, 0, 0, 0, 2, 8, status]));
    let frames = vec![Ok(data), Ok(Frame::trailers(trailers))];
    Ok(Response::new(StreamBody::new(futures::stream::iter(frames))))
}

fn acceptor() -> TlsAcceptor {
    let key = rcgen::generate_simple_self_signed(vec!["somebody".to_owned()]).expect("a certificate");
    let secret = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let config = config.with_no_client_auth().with_single_cert(vec![key.cert.der().clone()], secret).expect("fits");
    TlsAcceptor::from(Arc::new(config))
}
