//! A server before a registry that passes requests on, except where a test wants it to do something else.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::{net::TcpListener, task::JoinHandle};

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What the front does with a request.
#[derive(Debug, Clone)]
pub enum Act {
    Pass,
    /// Breaks the connection after so many bytes of the body.
    Cut(usize),
    /// Sends so many bytes of the body, and then nothing.
    Stall(usize),
    /// Sends the whole, whatever range was asked for.
    IgnoreRange,
    /// Changes a byte of the body.
    Spoil,
    Answer(StatusCode, Vec<(HeaderName, String)>, String),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: String,
    /// How many requests for the same path came before.
    pub earlier: usize,
}

impl Seen {
    pub fn is_blob(&self) -> bool {
        self.path.contains("/blobs/")
    }

    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub struct Front {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Front {
    /// Starts a front before the registry on a port.
    pub async fn start(registry: u16, decide: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let client = Client::builder(TokioExecutor::new()).build_http();
        let server = Arc::new(Server { registry, client, decide: Box::new(decide), seen: Arc::clone(&seen) });
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = Arc::clone(&server);
                let service = service_fn(move |request| Arc::clone(&server).answer(request));
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move {
                    // Broken connections are what these tests are about.
                    let _ = connection.await;
                });
            }
        });
        Self { port, seen, task }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns what was asked for a kind of content.
    pub fn seen_of(&self, part: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.path.contains(part)).collect()
    }
}

struct Server {
    registry: u16,
    client: Client<HttpConnector, Full<Bytes>>,
    decide: Box<dyn Fn(&Seen) -> Act + Send + Sync>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let seen = self.note(&head, &body);
        let act = (self.decide)(&seen);
        if let Act::Answer(status, headers, body) = act {
            return Ok(answer(status, headers, body));
        }
        let mut headers = head.headers.clone();
        headers.remove(header::HOST);
        if matches!(act, Act::IgnoreRange) {
            headers.remove(header::RANGE);
        }
        let mut onward = Request::new(Full::new(body));
        *onward.method_mut() = head.method;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        *onward.uri_mut() = format!("http://127.0.0.1:{}{path}", self.registry).parse().unwrap();
        *onward.headers_mut() = headers;
        let (head, body) = self.client.request(onward).await.unwrap().into_parts();
        Ok(Response::from_parts(head, change(body, &act)))
    }

    fn note(&self, head: &http::request::Parts, body: &Bytes) -> Seen {
        let mut all = self.seen.lock().unwrap();
        let seen = Seen {
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head.headers.clone(),
            body: String::from_utf8_lossy(body).into_owned(),
            earlier: all.iter().filter(|one| one.path == head.uri.path()).count(),
        };
        all.push(seen.clone());
        seen
    }
}

fn answer(status: StatusCode, headers: Vec<(HeaderName, String)>, body: String) -> Response<Body> {
    let body = Full::new(Bytes::from(body)).map_err(io::Error::other).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = headers.into_iter().map(|(name, value)| (name, HeaderValue::try_from(value).unwrap()));
    response.headers_mut().extend(headers);
    response
}

fn change(body: Incoming, act: &Act) -> Body {
    let limit = match act {
        Act::Cut(limit) | Act::Stall(limit) => *limit,
        _ => usize::MAX,
    };
    let (stalls, spoils) = (matches!(act, Act::Stall(_)), matches!(act, Act::Spoil));
    let mut sent = 0;
    let frames = body.into_data_stream().map(move |chunk| {
        let mut bytes = chunk.map_err(io::Error::other)?.to_vec();
        if spoils && let Some(first) = bytes.first_mut() {
            *first ^= 1;
        }
        bytes.truncate(limit - sent);
        sent += bytes.len();
        Ok((Bytes::from(bytes), sent >= limit))
    });
    // The last frame goes out before the end, or it would be lost with the connection.
    let frames = frames.flat_map(move |part| {
        let (first, is_last) = match part {
            Ok((bytes, is_last)) => (Ok(Frame::data(bytes)), is_last),
            Err(error) => (Err(error), false),
        };
        let first = futures::stream::iter([first]);
        let pause = futures::stream::once(async move {
            if stalls {
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
            Err(io::Error::other("cut"))
        });
        if is_last { first.chain(pause).boxed() } else { first.boxed() }
    });
    StreamBody::new(frames).boxed_unsync()
}
