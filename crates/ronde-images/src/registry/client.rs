//! Sends single requests: one client for each configuration of TLS, and bounds on everything that comes back.
//!
//! Knows nothing of registries: no credentials, no tries again, no redirects.

use std::{collections::BTreeMap, error::Error as StdError, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{
    HeaderValue, Request, Response,
    header::{PROXY_AUTHORIZATION, USER_AGENT},
};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{
    connect::{ConnectError, Connector, ProxyRules},
    error::{RegistryError, root_cause},
    tls::TlsSettings,
};

const AGENT: &str = concat!("ronde/", env!("CARGO_PKG_VERSION"));
/// Downloads of one image, and one to spare.
const IDLE_CONNECTIONS_MAX: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

type HttpClient = legacy::Client<Connector, Full<Bytes>>;

/// How long is waited for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    pub connect: Duration,
    /// Without a single byte, a connection is taken for broken.
    pub stall: Duration,
}

/// Sends requests.
#[derive(Debug)]
pub(super) struct Client {
    proxies: ProxyRules,
    timeouts: Timeouts,
    by_tls: Mutex<BTreeMap<TlsSettings, HttpClient>>,
}

impl Client {
    pub(super) fn new(proxies: ProxyRules, timeouts: Timeouts) -> Self {
        Self { proxies, timeouts, by_tls: Mutex::default() }
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(&self, tls: &TlsSettings, request: Request<Full<Bytes>>) -> Result<Answer, SendError> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let client = self.client(tls).map_err(SendError::Other)?;
        let request = self.with_headers(request);
        // A connection has its own, shorter bounds; this one is for the answer.
        let longest = self.timeouts.connect + self.timeouts.stall;
        match timeout(longest, client.request(request)).await {
            Ok(Ok(response)) => Ok(Answer { host, stall: self.timeouts.stall, response }),
            Ok(Err(error)) => Err(SendError::of_client(host, &error)),
            Err(_) => Err(SendError::Other(stalled(host, self.timeouts.stall))),
        }
    }

    fn with_headers(&self, mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
        let proxy = self.proxies.authorization(request.uri());
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if let Some(password) = proxy {
            headers.insert(PROXY_AUTHORIZATION, password);
        }
        request
    }

    fn client(&self, tls: &TlsSettings) -> Result<HttpClient, RegistryError> {
        let mut clients = self.by_tls.lock();
        if let Some(client) = clients.get(tls) {
            return Ok(client.clone());
        }
        let connector = Connector::new(tls.build()?, self.proxies.clone(), self.timeouts.connect);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector);
        clients.insert(tls.clone(), client.clone());
        Ok(client)
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum SendError {
    /// The host answers, but not with TLS.
    NotTls {
        host: String,
    },
    Other(RegistryError),
}

impl SendError {
    fn of_client(host: String, error: &legacy::Error) -> Self {
        match find_connect_error(error) {
            Some(ConnectError::NotTls) => Self::NotTls { host },
            Some(ConnectError::Tls(cause)) => Self::Other(RegistryError::Tls { host, cause: cause.clone() }),
            Some(ConnectError::Unreachable(cause)) => {
                Self::Other(RegistryError::Unreachable { host, cause: cause.clone() })
            }
            None => Self::Other(RegistryError::Broken { host, cause: root_cause(error) }),
        }
    }
}

impl From<SendError> for RegistryError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NotTls { host } => Self::Tls { host, cause: ConnectError::NotTls.to_string() },
            SendError::Other(error) => error,
        }
    }
}

fn find_connect_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a ConnectError> {
    let mut next = Some(error);
    while let Some(inner) = next {
        if let Some(found) = inner.downcast_ref() {
            return Some(found);
        }
        next = inner.source();
    }
    None
}

/// The head of an answer, and its body to come.
#[derive(Debug)]
pub(super) struct Answer {
    pub host: String,
    pub response: Response<Incoming>,
    stall: Duration,
}

impl Answer {
    /// Returns the next bytes of the body; nothing at its end.
    pub(super) async fn next_bytes(&mut self) -> Result<Option<Bytes>, RegistryError> {
        loop {
            let frame = timeout(self.stall, self.response.body_mut().frame()).await;
            match frame.map_err(|_| stalled(self.host.clone(), self.stall))? {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(RegistryError::Broken { host: self.host.clone(), cause: root_cause(&error) });
                }
                // Trailers are of no use here.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                    _ => {}
                },
            }
        }
    }

    /// Reads a body that should be small.
    pub(super) async fn read_all(&mut self, what: &'static str, max: u64) -> Result<Bytes, RegistryError> {
        let too_large = || RegistryError::TooLarge { host: self.host.clone(), what, max };
        let announced = hyper::body::Body::size_hint(self.response.body()).lower();
        if announced > max {
            return Err(too_large());
        }
        let too_large = too_large();
        let mut whole = BytesMut::new();
        while let Some(bytes) = self.next_bytes().await? {
            if (whole.len() + bytes.len()) as u64 > max {
                return Err(too_large);
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole.freeze())
    }
}

fn stalled(host: String, stall: Duration) -> RegistryError {
    RegistryError::Broken { host, cause: format!("nothing came for {} s", stall.as_secs_f32()) }
}
