//! HTTP in front of the verbs: which path and method is what, and what an answer looks like.
//!
//! One router for everyone. In process it is called directly and trusted; over the network [`crate::tls`] puts TLS
//! and the check of tokens in front, and leaves the [`User`] in the request. [`authorize`] is before every route.

pub mod authorize;
pub mod documents;
mod impersonate;
pub mod negotiate;
pub mod query;
pub mod reply;
pub mod resources;

use std::time::Duration;

use axum::{Router, body::Body, extract::Request, routing::any};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header, request::Parts};
use http_body_util::BodyExt as _;

use self::reply::Reply;
use crate::{api::Api, auth::User, decode, error::ApiError};

/// How long a client may take to send a body of at most three megabytes.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How much of a refused body is read all the same, and for how long.
const REFUSED_BYTES_MAX: usize = 64 << 20;
const REFUSED_TIMEOUT: Duration = Duration::from_secs(30);

/// Where `ronde backup` gets the objects from; for the administrator alone.
pub const BACKUP_PATH: &str = "/ronde/backup";

/// Returns the router of the whole API.
pub fn router(api: Api) -> Router {
    Router::new()
        .route("/version", any(documents::version))
        .route("/metrics", any(documents::metrics))
        .route(BACKUP_PATH, any(documents::backup))
        .route("/healthz", any(documents::healthy))
        .route("/healthz/{*check}", any(documents::health_check))
        .route("/livez", any(documents::healthy))
        .route("/livez/{*check}", any(documents::health_check))
        .route("/readyz", any(documents::healthy))
        .route("/readyz/{*check}", any(documents::health_check))
        .route("/api", any(documents::api))
        .route("/api/{version}", any(documents::api_version))
        .route("/apis", any(documents::apis))
        .route("/apis/{group}", any(documents::group))
        .route("/apis/{group}/{version}", any(documents::group_version))
        .route("/openapi/v2", any(documents::openapi_v2))
        .route("/openapi/v3", any(documents::openapi_v3_index))
        .route("/openapi/v3/{*path}", any(documents::openapi_v3))
        .fallback(resources::handle)
        .layer(axum::middleware::from_fn_with_state(api.clone(), authorize::authorize))
        .with_state(api)
}

/// Whether a path can be asked for without a token.
pub fn is_public(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"].iter().any(|open| path == *open || path.starts_with(&format!("{open}/")))
}

/// The parts of a request that handlers look at.
pub struct ApiRequest {
    pub user: User,
    pub query: query::Query,
    pub body: Bytes,
    headers: HeaderMap,
}

impl ApiRequest {
    /// Takes a request apart and reads its body, within bounds of size and time.
    ///
    /// # Errors
    /// If the body is too large, or does not come.
    pub async fn read(request: Request) -> Result<Self, ApiError> {
        let (parts, mut body) = request.into_parts();
        let mut asked = Self::without_body(parts);
        asked.body = match tokio::time::timeout(BODY_TIMEOUT, read_bounded(&mut body)).await {
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) => {
                discard(body).await;
                return Err(decode::too_large());
            }
            Ok(Err(error)) => return Err(ApiError::bad_request(format!("cannot read the body: {error}"))),
            Err(_) => return Err(ApiError::new(408, "Timeout", "the body of the request did not arrive in time")),
        };
        Ok(asked)
    }

    pub fn without_body(parts: Parts) -> Self {
        let agent = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let user = parts.extensions.get::<User>().cloned().unwrap_or_else(User::anonymous).with_agent(agent);
        Self { user, query: query::Query::parse(parts.uri.query()), body: Bytes::new(), headers: parts.headers }
    }

    pub fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn accept(&self) -> Option<&str> {
        Some(self.header(header::ACCEPT)).filter(|accept| !accept.is_empty())
    }

    pub fn content_type(&self) -> &str {
        self.header(header::CONTENT_TYPE)
    }
}

/// Reads a body to its end, or to the point where it is too large: then there is none.
async fn read_bounded(body: &mut Body) -> Result<Option<Bytes>, axum::Error> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if read.len() + data.len() > decode::BODY_BYTES_MAX {
                return Ok(None);
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(Some(read.freeze()))
}

/// Reads the rest of a refused body, so that the client is not cut off while it still speaks and sees its answer.
///
/// Within bounds: a client that goes on and on is cut off.
pub async fn discard(mut body: Body) {
    let rest = async {
        let mut left = REFUSED_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.into_data().map_or(0, |data| data.len()));
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(REFUSED_TIMEOUT, rest).await;
}

/// The answer to a path that leads nowhere, as Go's HTTP server words it.
pub fn page_not_found() -> Reply {
    reply::with_type(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", b"404 page not found\n".to_vec())
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn post(body: Body) -> Request {
        Request::post("/api/v1/namespaces/default/configmaps").body(body).expect("a request")
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let started = Instant::now();
        let byte_a_second = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::convert::Infallible>(Bytes::from_static(b" ")), ()))
        });
        let error = ApiRequest::read(post(Body::from_stream(byte_a_second))).await.err().expect("it does not end");
        assert_eq!((error.code, error.reason), (408, "Timeout"));
        assert_eq!(started.elapsed(), BODY_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_body_is_not_read_for_ever() {
        let started = Instant::now();
        let (head, part) = (vec![b' '; decode::BODY_BYTES_MAX], Bytes::from_static(b" "));
        let first = futures::stream::iter([Ok::<_, std::convert::Infallible>(head.into()), Ok(part)]);
        let silence = futures::stream::pending();
        let endless = futures::StreamExt::chain(first, silence);
        let error = ApiRequest::read(post(Body::from_stream(endless))).await.err().expect("it is too large");
        assert_eq!((error.code, error.reason), (413, "RequestEntityTooLarge"));
        assert_eq!(started.elapsed(), REFUSED_TIMEOUT);
    }
}
