//! Watches over the requests of a client: counts them, ends those that are never answered, does as a busy server asks, and
//! keeps back what a process may not send because its term is over.
//!
//! Between the controllers and the `kube::Client` that talks to the server, whichever that is.

use std::time::Duration;

use http::{
    Method, Request, Response, StatusCode,
    header::{HeaderMap, RETRY_AFTER, UPGRADE},
};
use kube::{Client, client::Body, error::Error};
use tokio::time::{Instant, sleep, timeout_at};
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
    let service = service_fn(move |request| {
        let (client, overseer) = (client.clone(), overseer.clone());
        async move { overseer.send(&client, request).await }
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
        let is_long = verb == "watch" || request.headers().contains_key(UPGRADE);
        let answer = if is_long {
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
    use super::*;

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
