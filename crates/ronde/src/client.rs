//! Talks to a Kubernetes API over `kube::Client` and puts what goes wrong into words for people.
//!
//! `kube::Error` repeats its sources in its own text, so it is never shown as it is. Knows nothing of objects.

use std::{future::poll_fn, io, path::Path, pin::pin, task::Poll};

use bytes::Bytes;
use futures::{AsyncBufRead, AsyncBufReadExt as _, Stream, StreamExt as _, TryStreamExt as _};
use http::{Request, StatusCode, header::ACCEPT, request::Builder};
use http_body_util::BodyExt as _;
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use ronde_runtime::lease::Term;
use serde_json::Value;
use tokio::runtime::{self, Runtime};

use crate::{
    args::ClusterArgs,
    failure::{Blame, Failure},
};

/// Why the API gave no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot start the runtime")]
    Runtime { source: io::Error },
    #[error("cannot read the kubeconfig")]
    Kubeconfig { source: Box<KubeconfigError> },
    #[error("cannot use the cluster of the kubeconfig")]
    Config { source: Box<kube::Error> },
    #[error("cannot reach the Kubernetes API")]
    Unreachable { source: Box<dyn std::error::Error + Send + Sync> },
    /// The words are the server's own.
    #[error("{message}")]
    Refused { code: StatusCode, reason: String, message: String },
    #[error("the Kubernetes API sent invalid JSON")]
    NotJson { source: serde_json::Error },
}

impl Failure for ClientError {
    fn blame(&self) -> Blame {
        match self {
            Self::Kubeconfig { .. } => Blame::User,
            Self::Refused { code, .. } if code.is_client_error() => Blame::User,
            _ => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Kubeconfig { .. } => {
                Some("start a Kubernetes API with `ronde up`, or name a file with `--kubeconfig FILE`".to_owned())
            }
            Self::Unreachable { .. } => Some("check whether it is running with `ronde status`".to_owned()),
            Self::Refused { code: StatusCode::UNAUTHORIZED, .. } => {
                Some("the kubeconfig belongs to another instance; check the selected context".to_owned())
            }
            Self::Refused { code: StatusCode::FORBIDDEN, message, .. } => lacking_right(message).map(str::to_owned),
            _ => None,
        }
    }
}

/// Says what to do about a right that a user lacks; an object can be forbidden for other reasons, which speak for themselves.
fn lacking_right(message: &str) -> Option<&'static str> {
    let is_about_rights = message.contains("is forbidden: User ");
    let hint = if message.ends_with("at the cluster scope") {
        "this looks at the whole cluster; what is about the jobs of one namespace (`-n`) needs rights there only"
    } else {
        "`kubectl auth can-i --list` shows what you may do here; examples/role.yaml is what users of jobs need"
    };
    is_about_rights.then_some(hint)
}

/// Returns a runtime for the few requests of one command.
pub fn runtime() -> Result<Runtime, ClientError> {
    runtime::Builder::new_current_thread().enable_all().build().map_err(|source| ClientError::Runtime { source })
}

/// Makes a client for the cluster that kubectl would use with the same options.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, ClientError> {
    connect_with(config(kubeconfig, context).await?)
}

/// Makes a client as a kubeconfig says.
pub fn connect_with(config: Config) -> Result<Client, ClientError> {
    Client::try_from(config).map_err(|source| ClientError::Config { source: Box::new(source) })
}

async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, ClientError> {
    let wrap = |source| ClientError::Kubeconfig { source: Box::new(source) };
    let kubeconfig = match kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    }
    .map_err(wrap)?;
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(wrap)
}

/// Makes a client for the cluster that the arguments name.
pub async fn connect_as(cluster: &ClusterArgs) -> Result<Client, ClientError> {
    connect(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await
}

/// Returns how to reach that cluster, or inside of a pod without a kubeconfig that of the pod's own account.
///
/// Requests are sent once: who watches over them repeats, counts and bounds them.
pub async fn config_from_anywhere(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, ClientError> {
    let config = match config(kubeconfig, context).await {
        Err(ClientError::Kubeconfig { source }) if kubeconfig.is_none() && context.is_none() => {
            Config::incluster().map_err(|_| ClientError::Kubeconfig { source })
        }
        other => other,
    };
    config.map(|mut config| {
        config.default_retry = false;
        config
    })
}

/// Makes a client whose connections end with a term, before anything else is written to them.
///
/// The tasks of the connections are what writes: a request that has passed every check above and was then held up, with the
/// whole process or for a connection, gets no further than here.
pub fn connect_for(config: Config, term: &Term) -> Result<Client, kube::Error> {
    let builder = ClientBuilder::try_from((config, FencedExecutor(term.clone())))?;
    Ok(builder.build())
}

#[derive(Clone)]
struct FencedExecutor(Term);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for FencedExecutor {
    fn execute(&self, connection: F) {
        let term = self.0.clone();
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            poll_fn(|context| if term.holds() { connection.as_mut().poll(context) } else { Poll::Ready(()) }).await;
        });
    }
}

/// Puts what went wrong between a client and the API into our words.
pub fn explain(error: kube::Error) -> ClientError {
    match error {
        kube::Error::Api(status) => ClientError::Refused {
            code: StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            reason: status.reason,
            message: status.message,
        },
        // The outer layers only say that there is an inner one.
        kube::Error::Service(inner) => unreachable(inner),
        other => unreachable(other.into()),
    }
}

/// An answer of the API that is not an error.
#[derive(Debug)]
pub struct Answer {
    pub code: StatusCode,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Result<Value, ClientError> {
        serde_json::from_slice(&self.body).map_err(|source| ClientError::NotJson { source })
    }
}

/// Begins a GET for a path, asking for a media type.
pub fn get(path: &str, accept: &str) -> Builder {
    Request::get(path).header(ACCEPT, accept)
}

/// Sends a request and reads the whole answer.
pub async fn send(client: &Client, request: Builder, body: Vec<u8>) -> Result<Answer, ClientError> {
    let response = begin(client, request, body).await?;
    let code = response.status();
    let body = response.into_body().collect().await.map_err(|error| unreachable(error.into()))?.to_bytes();
    if code.is_success() { Ok(Answer { code, body }) } else { Err(refused(code, &body)) }
}

/// Fetches a page of text.
pub async fn get_text(client: &Client, path: &str) -> Result<String, ClientError> {
    let answer = send(client, get(path, "*/*"), Vec::new()).await?;
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}

/// Sends a request whose answer is one JSON value a line, for as long as the server goes on.
pub async fn stream(
    client: &Client,
    request: Builder,
) -> Result<impl Stream<Item = Result<Value, ClientError>> + Unpin + use<>, ClientError> {
    let lines = stream_bytes(client, request).await?.lines();
    Ok(lines.map(|line| match line {
        Ok(line) => serde_json::from_str(&line).map_err(|source| ClientError::NotJson { source }),
        Err(error) => Err(unreachable(error.into())),
    }))
}

/// Sends a request whose answer goes on for as long as the server likes.
pub async fn stream_bytes(client: &Client, request: Builder) -> Result<impl AsyncBufRead + Unpin + use<>, ClientError> {
    let response = begin(client, request, Vec::new()).await?;
    let code = response.status();
    let body = response.into_body();
    if !code.is_success() {
        let body = body.collect().await.map_err(|error| unreachable(error.into()))?.to_bytes();
        return Err(refused(code, &body));
    }
    Ok(Box::pin(body.into_data_stream().map_err(io::Error::other).into_async_read()))
}

async fn begin(client: &Client, request: Builder, body: Vec<u8>) -> Result<http::Response<Body>, ClientError> {
    let request = request.body(Body::from(body)).map_err(|error| unreachable(error.into()))?;
    client.send(request).await.map_err(explain)
}

fn unreachable(source: Box<dyn std::error::Error + Send + Sync>) -> ClientError {
    ClientError::Unreachable { source }
}

/// Reads the `Status` of a refusal; anything else is shown by its beginning.
fn refused(code: StatusCode, body: &[u8]) -> ClientError {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = match status["message"].as_str() {
        Some(message) => message.to_owned(),
        None => {
            let beginning: String = String::from_utf8_lossy(body).trim().chars().take(200).collect();
            format!("the Kubernetes API answered {code}: {beginning}")
        }
    };
    ClientError::Refused { code, reason: status["reason"].as_str().unwrap_or_default().to_owned(), message }
}

/// Encodes a text for a path or a query.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_special_in_a_url_is_encoded() {
        assert_eq!(encode("app=web,tier!=a b"), "app%3Dweb%2Ctier%21%3Da%20b");
        assert_eq!(encode("system:node~x.y-z_1"), "system%3Anode~x.y-z_1");
        assert_eq!(encode("../é"), "..%2F%C3%A9");
    }

    #[test]
    fn a_refusal_speaks_with_the_words_of_the_server() {
        let body = br#"{"kind":"Status","reason":"NotFound","message":"pods \"x\" not found","code":404}"#;
        let error = refused(StatusCode::NOT_FOUND, body);
        assert_eq!(error.to_string(), "pods \"x\" not found");
        assert_eq!(error.blame(), Blame::User);
        assert_eq!(error.hint(), None);
        let error = refused(StatusCode::BAD_GATEWAY, b"<html>\n");
        assert_eq!(error.to_string(), "the Kubernetes API answered 502 Bad Gateway: <html>");
        assert_eq!(error.blame(), Blame::Environment);
    }

    #[test]
    fn a_right_that_is_lacking_has_a_hint_and_other_refusals_have_none() {
        let hint = |message: &str| {
            let (code, reason) = (StatusCode::FORBIDDEN, "Forbidden".to_owned());
            ClientError::Refused { code, reason, message: message.to_owned() }.hint().unwrap_or_default()
        };
        let cannot = r#"nodes is forbidden: User "ann" cannot list resource "nodes" in API group """#;
        assert!(hint(&format!("{cannot} at the cluster scope")).starts_with("this looks at the whole cluster"));
        assert!(hint(&format!("{cannot} in the namespace \"ml\"")).contains("examples/role.yaml"));
        assert_eq!(hint(r#"queues "root" is forbidden: queue `root` is always there"#), "");
    }
}
