//! Watches over the requests of a client: counts them, ends those that are never answered, does as a busy server asks, and
//! keeps back what a process may not send because its term is over.
//!
//! Between the controllers and the `kube::Client` that talks to the server, whichever that is.

use std::{sync::Arc, time::Duration};

use http::{
    Method, Request, Response, StatusCode,
    header::{HeaderMap, RETRY_AFTER, UPGRADE},
};
use kube::{Client, client::Body, error::Error};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};
use tower::service_fn;

use crate::{
    lease::Term,
    telemetry::{
        Telemetry,
        metrics::{Label, REQUEST_SECONDS, REQUESTS},
    },
};

/// How long a request may take until its answer begins, repetitions included; a watch, whose answer may not begin before there is
/// something to tell, has a limit of its own.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How many requests of one client are under way at once, watches aside: enough for a server of many processors, and below
/// what a server answers at once by default (200 writes). Who is over it waits for its turn.
const IN_FLIGHT_MAX: usize = 128;
/// What is waited for a busy server that does not say how long.
const PAUSE: Duration = Duration::from_secs(1);

/// Who watches over the requests of a client.
#[derive(Clone)]
pub struct Overseer {
    pub telemetry: Telemetry,
    /// While this term holds, requests are sent; always if there is none.
    pub term: Option<Term>,
}

/// That a request was not sent.
#[derive(Debug, thiserror::Error)]
#[error("not sent: this operator is no longer the active one")]
pub struct Fenced;

/// That a request was given up.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {} s", ANSWER_MAX.as_secs())]
struct Unanswered;

/// Returns the same client, with somebody who watches over its requests.
pub fn oversee(client: Client, overseer: Overseer) -> Client {
    let namespace = client.default_namespace().to_owned();
    let line = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let service = service_fn(move |request| {
        let (client, overseer, line) = (client.clone(), overseer.clone(), line.clone());
        async move {
            // The semaphore is never closed.
            let _turn = if is_long(&request) { None } else { line.acquire().await.ok() };
            overseer.send(&client, request).await
        }
    });
    Client::new(service, namespace)
}

impl Overseer {
    /// Sends a request, again if a busy server asks for that: what it has refused it has not begun.
    async fn send(&self, client: &Client, mut request: Request<Body>) -> Result<Response<Body>, Error> {
        let verb = verb_of(&request);
        let give_up = Instant::now() + ANSWER_MAX;
        loop {
            let again = clone(&request);
            let answer = self.send_once(client, request, verb, give_up).await?;
            let Some(pause) = pause_asked(answer.status(), answer.headers()) else { return Ok(answer) };
            let Some(again) = again.filter(|_| Instant::now() + pause < give_up) else { return Ok(answer) };
            sleep(pause).await;
            request = again;
        }
    }

    async fn send_once(
        &self,
        client: &Client,
        request: Request<Body>,
        verb: &'static str,
        give_up: Instant,
    ) -> Result<Response<Body>, Error> {
        let metrics = &self.telemetry.metrics;
        if self.term.as_ref().is_some_and(|term| !term.holds()) {
            metrics.count(&REQUESTS, [verb, "fenced"]);
            return Err(Error::Service(Fenced.into()));
        }
        let begun = Instant::now();
        let answer = if is_long(&request) {
            client.send(request).await
        } else {
            timeout_at(give_up, client.send(request)).await.unwrap_or_else(|_| Err(Error::Service(Unanswered.into())))
        };
        let code = match &answer {
            Ok(answer) => Label::Owned(answer.status().as_u16().to_string()),
            Err(_) => Label::Borrowed("none"),
        };
        metrics.count(&REQUESTS, [Label::Borrowed(verb), code]);
        if answer.is_ok() {
            metrics.observe(&REQUEST_SECONDS, [verb], begun.elapsed());
            self.telemetry.health.note_answer(Instant::now());
        }
        answer
    }
}

/// Tells whether an answer goes on for as long as somebody listens.
fn is_long(request: &Request<Body>) -> bool {
    verb_of(request) == "watch" || request.headers().contains_key(UPGRADE)
}

fn clone(request: &Request<Body>) -> Option<Request<Body>> {
    let mut again = Request::new(request.body().try_clone()?);
    again.method_mut().clone_from(request.method());
    again.uri_mut().clone_from(request.uri());
    again.headers_mut().clone_from(request.headers());
    again.extensions_mut().clone_from(request.extensions());
    Some(again)
}

/// Returns how long to wait before a request is sent again, if the server has refused to begin with it.
fn pause_asked(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok()).map(Duration::from_secs);
    match status {
        StatusCode::TOO_MANY_REQUESTS => Some(said.unwrap_or(PAUSE)),
        // Without the header nobody knows whether the server has begun.
        StatusCode::SERVICE_UNAVAILABLE => said,
        _ => None,
    }
}

/// Returns the word of Kubernetes for what a request does.
fn verb_of<B>(request: &Request<B>) -> &'static str {
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
    match *request.method() {
        Method::GET | Method::HEAD if is_watch => "watch",
        Method::GET | Method::HEAD if is_collection(request.uri().path()) => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_collection(request.uri().path()) => "deletecollection",
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// Tells whether a path is that of many objects: `/api/v1/pods`, `/apis/GROUP/VERSION/namespaces/NAMESPACE/jobs`.
fn is_collection(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let prefix = if parts.first() == Some(&"api") { 2 } else { 3 };
    parts.drain(..prefix.min(parts.len()));
    matches!(parts[..], [_] | ["namespaces", _, _])
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use super::*;
    use crate::{causes::Causes, telemetry::health::Check};

    /// A server that does as it is told with its first requests, and answers the others well.
    struct Server {
        client: Client,
        telemetry: Telemetry,
        requests: Arc<AtomicUsize>,
    }

    impl Server {
        fn that(first: fn() -> Option<Response<Body>>, term: Option<Term>) -> Self {
            let requests = Arc::<AtomicUsize>::default();
            let counted = requests.clone();
            let service = service_fn(move |_: Request<Body>| {
                let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
                async move {
                    match first() {
                        Some(answer) if is_first => Ok::<_, Error>(answer),
                        None if is_first => pending().await,
                        _ => Ok(Response::new(Body::from(b"{}".to_vec()))),
                    }
                }
            });
            let telemetry = Telemetry::default();
            let overseer = Overseer { telemetry: telemetry.clone(), term };
            Self { client: oversee(Client::new(service, "default"), overseer), telemetry, requests }
        }

        async fn ask(&self) -> Result<StatusCode, String> {
            let request =
                Request::post("/api/v1/namespaces/a/pods").body(Body::from(b"{}".to_vec())).expect("a request");
            self.client.send(request).await.map(|answer| answer.status()).map_err(|error| Causes(&error).to_string())
        }

        fn counted(&self) -> Vec<String> {
            let page = self.telemetry.metrics.render([&REQUESTS]);
            page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
        }
    }

    fn fine() -> Option<Response<Body>> {
        Some(Response::new(Body::empty()))
    }

    fn busy() -> Option<Response<Body>> {
        let answer = Response::builder().status(429).header(RETRY_AFTER, "7");
        Some(answer.body(Body::empty()).expect("an answer"))
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_when_the_term_is_over() {
        let term = Term::until(Instant::now() + Duration::from_secs(10));
        let server = Server::that(fine, Some(term));
        assert_eq!(server.ask().await, Ok(StatusCode::OK));
        // As after SIGSTOP and SIGCONT: nothing of this process has run meanwhile.
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(server.ask().await.expect_err("it is over").contains("no longer the active one"));
        assert_eq!(server.requests.load(Ordering::Relaxed), 1);
        assert_eq!(
            server.counted(),
            [
                "ronde_client_requests_total{verb=\"create\",code=\"200\"} 1",
                "ronde_client_requests_total{verb=\"create\",code=\"fenced\"} 1"
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_busy_server_refuses_is_sent_again_when_it_says() {
        let (server, begun) = (Server::that(busy, None), Instant::now());
        assert_eq!(server.ask().await, Ok(StatusCode::OK));
        assert_eq!(begun.elapsed().as_secs(), 7);
        assert_eq!(server.counted().len(), 2, "the refusal is counted too");
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_that_ends_during_a_pause_ends_the_request() {
        let term = Term::until(Instant::now() + Duration::from_secs(5));
        let server = Server::that(busy, Some(term));
        assert!(server.ask().await.is_err());
        assert_eq!(server.requests.load(Ordering::Relaxed), 1, "it is not sent again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_never_answered_ends() {
        let (server, begun) = (Server::that(|| None, None), Instant::now());
        assert!(server.ask().await.expect_err("no answer").contains("did not answer within 30 s"));
        assert_eq!(begun.elapsed().as_secs(), 30);
        let is_silent = |check: &Check| check.name == "api-server" && check.state.is_err();
        assert!(server.telemetry.health.readiness(Instant::now()).iter().any(is_silent));
        assert_eq!(server.ask().await, Ok(StatusCode::OK));
        assert!(!server.telemetry.health.readiness(Instant::now()).iter().any(is_silent));
    }

    #[test]
    fn requests_have_verbs() {
        let check = |method: Method, path: &str, expected: &str| {
            let request = Request::builder().method(method).uri(path).body(()).expect("a request");
            assert_eq!(verb_of(&request), expected, "{path}");
        };
        check(Method::GET, "/api/v1/pods?limit=500", "list");
        check(Method::GET, "/api/v1/pods?watch=true&resourceVersion=3", "watch");
        check(Method::GET, "/api/v1/namespaces", "list");
        check(Method::GET, "/api/v1/namespaces/a", "get");
        check(Method::GET, "/api/v1/namespaces/a/pods", "list");
        check(Method::GET, "/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs/mnist", "get");
        check(Method::GET, "/apis/batch.volcano.sh/v1alpha1/jobs", "list");
        check(Method::POST, "/api/v1/namespaces/a/pods/p/binding", "create");
        check(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", "update");
        check(Method::PATCH, "/api/v1/namespaces/a/pods/p/status", "patch");
        check(Method::DELETE, "/api/v1/namespaces/a/pods/p", "delete");
        check(Method::DELETE, "/api/v1/namespaces/a/pods", "deletecollection");
        check(Method::OPTIONS, "/", "other");
    }

    #[test]
    fn a_busy_server_is_given_time() {
        let check = |code: u16, header: Option<&str>, expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert(RETRY_AFTER, header.parse().expect("a header"));
            }
            let status = StatusCode::from_u16(code).expect("a code");
            assert_eq!(pause_asked(status, &headers), expected.map(Duration::from_secs), "{code} {header:?}");
        };
        check(200, Some("3"), None);
        check(429, Some("3"), Some(3));
        check(429, None, Some(1));
        check(429, Some("soon"), Some(1));
        check(503, Some("2"), Some(2));
        check(503, None, None);
        check(500, Some("2"), None);
    }
}
