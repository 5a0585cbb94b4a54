//! Connections to registries: directly or through a proxy, with TLS or without.
//!
//! [`Connector`] is what hyper asks for a connection. Its errors say what failed, because what follows differs: a host
//! that is out of reach, one that does not speak TLS, and one whose certificate is not trusted.

use std::{
    error::Error as StdError,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderValue, Uri};
use hyper_util::{
    client::{
        legacy::connect::{Connected, Connection, HttpConnector, proxy::Tunnel},
        proxy::matcher::{Intercept, Matcher},
    },
    rt::TokioIo,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tower::Service;
use url::Url;

use super::{error::root_cause, hosts::is_loopback};

/// Handshakes take a few round trips, also with a proxy between.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The proxies to use, as the environment has them. Empty means none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// `HTTP_PROXY`: for hosts without TLS.
    pub http: String,
    /// `HTTPS_PROXY`: for hosts with TLS.
    pub https: String,
    /// `NO_PROXY`: hosts, domains and networks that are asked directly. This machine itself always is.
    pub no: String,
}

impl Proxies {
    /// Reads the variables that curl reads, in either case.
    pub fn from_environment() -> Self {
        Self { http: variable("HTTP_PROXY"), https: variable("HTTPS_PROXY"), no: variable("NO_PROXY") }
    }

    fn matcher(&self) -> Matcher {
        Matcher::builder().http(self.http.as_str()).https(self.https.as_str()).no(self.no.as_str()).build()
    }
}

impl std::fmt::Debug for Proxies {
    /// Proxies may have passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxies").field("no", &self.no).finish_non_exhaustive()
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the proxies from the environment")]
fn variable(name: &str) -> String {
    let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    read(name).or_else(|| read(&name.to_lowercase())).unwrap_or_default()
}

/// Which proxy is asked for which host.
#[derive(Debug, Clone)]
pub(super) struct ProxyRules(Arc<Matcher>);

impl ProxyRules {
    pub(super) fn new(proxies: &Proxies) -> Self {
        Self(Arc::new(proxies.matcher()))
    }

    fn find(&self, uri: &Uri) -> Option<Intercept> {
        let is_here = Url::parse(&uri.to_string()).is_ok_and(|url| is_loopback(&url));
        if is_here { None } else { self.0.intercept(uri) }
    }

    /// Returns the password for the proxy that sees the request itself; a tunnel is told its own at its beginning.
    pub(super) fn authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        if uri.scheme_str() != Some("http") {
            return None;
        }
        let mut value = self.find(uri)?.basic_auth()?.clone();
        value.set_sensitive(true);
        Some(value)
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("{0}")]
    Unreachable(String),
    /// The host answers, but not with TLS.
    #[error("the server does not speak TLS")]
    NotTls,
    #[error("{0}")]
    Tls(String),
}

/// Connects to hosts with one configuration of TLS.
#[derive(Clone)]
pub(super) struct Connector {
    dial: Dial,
    proxies: ProxyRules,
}

impl Connector {
    pub(super) fn new(tls: Arc<ClientConfig>, proxies: ProxyRules, connect_timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // With several addresses each gets its share, so that a dead one is passed over.
        tcp.set_connect_timeout(Some(connect_timeout));
        Self { dial: Dial { tcp, tls: TlsConnector::from(tls), connect_timeout }, proxies }
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Stream>, ConnectError> {
        match self.proxies.find(&uri) {
            None => self.dial.open(uri).await,
            Some(proxy) => self.connect_through(&proxy, uri).await,
        }
    }

    async fn connect_through(self, proxy: &Intercept, uri: Uri) -> Result<TokioIo<Stream>, ConnectError> {
        if !matches!(proxy.uri().scheme_str(), Some("http" | "https")) {
            return Err(ConnectError::Unreachable("the proxy must be one for HTTP".to_owned()));
        }
        if uri.scheme_str() == Some("http") {
            let stream = self.dial.open(proxy.uri().clone()).await?;
            return Ok(TokioIo::new(Stream { is_proxied: true, ..stream.into_inner() }));
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.dial.clone());
        if let Some(password) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(password.clone());
        }
        let fault = |cause: String| ConnectError::Unreachable(format!("proxy: {cause}"));
        let opened = timeout(self.dial.connect_timeout + HANDSHAKE_TIMEOUT, tunnel.call(uri.clone())).await;
        let stream = opened.map_err(|_| fault("no answer in time".to_owned()))?;
        let stream = stream.map_err(|error| fault(root_cause(&error)))?;
        self.dial.secure(stream.into_inner(), &uri).await.map(TokioIo::new)
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// Connects to a host or a proxy itself, with TLS if its address says so.
#[derive(Clone)]
struct Dial {
    tcp: HttpConnector,
    tls: TlsConnector,
    connect_timeout: Duration,
}

impl Dial {
    async fn open(mut self, uri: Uri) -> Result<TokioIo<Stream>, ConnectError> {
        // The resolver has no bound of its own that would be short enough.
        let opened = timeout(self.connect_timeout, self.tcp.call(uri.clone())).await;
        let tcp = opened.map_err(|_| ConnectError::Unreachable("no answer in time".to_owned()))?;
        let tcp = tcp.map_err(|error| ConnectError::Unreachable(root_cause(&error)))?;
        let stream = Stream { io: Box::new(tcp.into_inner()), is_proxied: false };
        let is_plain = uri.scheme_str() != Some("https");
        if is_plain { Ok(TokioIo::new(stream)) } else { self.secure(stream, &uri).await.map(TokioIo::new) }
    }

    async fn secure(&self, stream: Stream, uri: &Uri) -> Result<Stream, ConnectError> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(|error| ConnectError::Tls(error.to_string()))?;
        match timeout(HANDSHAKE_TIMEOUT, self.tls.connect(name, stream)).await {
            Ok(Ok(secured)) => Ok(Stream { io: Box::new(secured), is_proxied: false }),
            Ok(Err(error)) => Err(handshake_error(&error)),
            Err(_) => Err(ConnectError::Unreachable("no TLS handshake in time".to_owned())),
        }
    }
}

fn handshake_error(error: &io::Error) -> ConnectError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => ConnectError::NotTls,
        Some(inner) => ConnectError::Tls(root_cause(inner)),
        // A server of plain HTTP may also just hang up.
        None if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            ConnectError::NotTls
        }
        None => ConnectError::Unreachable(root_cause(error)),
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Stream>;
    type Error = Box<dyn StdError + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let opening = self.clone().open(uri);
        Box::pin(async { opening.await.map_err(Into::into) })
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection, whatever it is made of.
pub(super) struct Stream {
    io: Box<dyn Io>,
    /// Requests name the whole URL then.
    is_proxied: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_proxied)
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_asked_for_what_is_elsewhere() {
        let proxies = Proxies {
            http: "http://plain:1".into(),
            https: "http://user:secret@tls:2".into(),
            no: "inside.example,10.0.0.0/8".into(),
        };
        let rules = ProxyRules::new(&proxies);
        let check = |uri: &'static str, proxy: Option<&str>| {
            let found = rules.find(&Uri::from_static(uri)).map(|found| found.uri().authority().unwrap().to_string());
            assert_eq!(found.as_deref(), proxy, "{uri}");
        };
        check("http://a.example/v2", Some("plain:1"));
        check("https://a.example/v2", Some("tls:2"));
        check("https://x.inside.example/v2", None);
        check("https://10.1.2.3:5000/v2", None);
        check("https://localhost:5000/v2", None);
        check("http://127.0.0.1:5000/v2", None);
        check("http://[::1]:5000/v2", None);
        assert!(!format!("{proxies:?}{rules:?}").contains("secret"));
        assert!(rules.authorization(&Uri::from_static("https://a.example")).is_none());
    }
}
