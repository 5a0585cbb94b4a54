//! The network side: TLS on loopback, bearer tokens, and bounds on what a client can hold.
//!
//! Every wait on a client has a limit: the handshake, the head of a request, its body, and a reader that has stopped
//! reading. Nothing is spoken in the clear.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, extract::Request, middleware::Next, response::Response};
use http::header;
use hyper::{
    body::Incoming,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    sync::Semaphore,
    time::{Instant, Sleep, sleep},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    api::Api,
    auth::User,
    error::ApiError,
    http::{discard, is_public, reply},
};

/// Clients of one machine: controllers, nodes, a few people. Each holds some 50 KB.
const CONNECTIONS_MAX: usize = 4096;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The length of HTTP/2's preface.
const GREETING_BYTES: usize = 24;
/// A client that takes nothing for this long is gone.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long open requests may go on once the server is asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Serves a router on a listener until `stop`.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    api: Api,
    router: Router,
    stop: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(tls);
    let check = axum::middleware::from_fn_with_state(api.clone(), authenticate);
    let router = router.layer(check);
    let tasks = TaskTracker::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match (accepted, places.clone().try_acquire_owned()) {
            (Ok((stream, _)), Ok(place)) => {
                let (acceptor, router, stop) = (acceptor.clone(), router.clone(), stop.clone());
                tasks.spawn(async move {
                    let _ = stream.set_nodelay(true);
                    if let Err(error) = connection(stream, acceptor, router, stop).await {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    drop(place);
                });
            }
            (Ok(_), Err(_)) => tracing::warn!(limit = CONNECTIONS_MAX, "too many connections: closing a new one"),
            // Out of file descriptors, most likely: wait for some to close.
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    tasks.close();
    let _ = tokio::time::timeout(GRACE, tasks.wait()).await;
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    acceptor: TlsAcceptor,
    router: Router,
    stop: CancellationToken,
) -> io::Result<()> {
    let exemption = StallExemption::default();
    let stream = Unstalled::new(stream, exemption.clone());
    let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
    let stream = Greeted::new(shaken.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??);
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    server.http2().timer(TokioTimer::new()).keep_alive_interval(Some(HEAD_TIMEOUT)).max_concurrent_streams(1000);
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(exemption.clone());
        service.call(request)
    });
    let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = &mut connection => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    served.map_err(io::Error::other)
}

/// Lets a request through if its token is good, with its user attached.
async fn authenticate(
    axum::extract::State(api): axum::extract::State<Api>,
    mut request: Request,
    next: Next,
) -> Response {
    let user = if is_public(request.uri().path()) { Some(User::anonymous()) } else { holder(&api, &request) };
    let Some(user) = user else {
        discard(request.into_body()).await;
        let mut answer = reply::error(&ApiError::new(401, "Unauthorized", "Unauthorized"));
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
        return answer;
    };
    request.extensions_mut().insert(user);
    next.run(request).await
}

/// Returns who holds the token of a request.
fn holder(api: &Api, request: &Request) -> Option<User> {
    let token = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    api.user_of(token.trim())
}

/// Says whether a connection waits for its client as long as it takes; found in the extensions of its requests.
#[derive(Clone, Default)]
pub struct StallExemption(Arc<AtomicBool>);

impl StallExemption {
    /// A person may be at the other end, who has paused the output of a terminal or is reading a log.
    pub fn grant(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A stream whose writes fail when the other side has taken nothing for a while.
struct Unstalled<S> {
    stream: S,
    /// Runs while a write is waiting.
    stalled: Option<Pin<Box<Sleep>>>,
    exemption: StallExemption,
}

impl<S> Unstalled<S> {
    fn new(stream: S, exemption: StallExemption) -> Self {
        Self { stream, stalled: None, exemption }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() || self.exemption.0.load(Ordering::Relaxed) {
            self.stalled = None;
            return result;
        }
        let timer =
            self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + STALL_TIMEOUT)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, result)
    }
}

/// A stream whose first bytes have to come in time. Hyper keeps the time of a head only when it knows by them which
/// version is spoken.
struct Greeted<S> {
    stream: S,
    /// Runs until enough has come.
    due: Option<Pin<Box<Sleep>>>,
    bytes_missing: usize,
}

impl<S> Greeted<S> {
    fn new(stream: S) -> Self {
        Self { stream, due: Some(Box::pin(sleep(HEAD_TIMEOUT))), bytes_missing: GREETING_BYTES }
    }

    fn came(&mut self, bytes: usize) {
        self.bytes_missing = self.bytes_missing.saturating_sub(bytes);
        if self.bytes_missing == 0 {
            self.due = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(due) = &mut self.due else { return result };
        if result.is_pending() && due.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.came(buffer.filled().len() - before);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio_rustls::{TlsConnector, client::TlsStream};

    use super::*;
    use crate::certificates::Identity;

    /// As much as is under way between a client and the server.
    const PIPE_BYTES: usize = 64 << 10;

    /// Serves one connection without a network.
    fn served(identity: &Identity) -> (DuplexStream, tokio::task::JoinHandle<io::Result<()>>) {
        let (near, far) = duplex(PIPE_BYTES);
        let acceptor = TlsAcceptor::from(identity.tls.clone());
        (far, tokio::spawn(connection(near, acceptor, Router::new(), CancellationToken::new())))
    }

    async fn shake_hands(identity: &Identity, stream: DuplexStream) -> anyhow::Result<TlsStream<DuplexStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(identity.ca_pem.as_bytes())?)?;
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("127.0.0.1")?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
    }

    fn identity() -> anyhow::Result<Identity> {
        let folder = tempfile::tempdir()?;
        Ok(Identity::open(folder.path(), &["127.0.0.1".parse()?])?)
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_shake_hands_is_given_up() -> anyhow::Result<()> {
        let started = Instant::now();
        let (_silent, ended) = served(&identity()?);
        assert_eq!(ended.await?.expect_err("nobody spoke").kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed(), HANDSHAKE_TIMEOUT);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_say_all_of_a_head_is_given_up() -> anyhow::Result<()> {
        let identity = identity()?;
        for said in ["", "P", "PRI * HTTP/2.0\r\n", "GET", "GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: "] {
            let (stream, ended) = served(&identity);
            let mut client = shake_hands(&identity, stream).await?;
            let started = Instant::now();
            client.write_all(said.as_bytes()).await?;
            // Whatever it still sends, it ends.
            client.read_to_end(&mut Vec::new()).await.ok();
            let _ = ended.await?;
            assert!(started.elapsed() <= HEAD_TIMEOUT * 2, "after {said:?}: {:?}", started.elapsed());
        }
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_it_slowly_but_in_time_is_answered() -> anyhow::Result<()> {
        let identity = identity()?;
        let (stream, _ended) = served(&identity);
        let mut client = shake_hands(&identity, stream).await?;
        for part in ["GET / HT", "TP/1.1\r\nHost: a\r\n", "Connection: close\r\n\r\n"] {
            sleep(HEAD_TIMEOUT / 4).await;
            client.write_all(part.as_bytes()).await?;
        }
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await?;
        assert!(answer.starts_with(b"HTTP/1.1 404"), "{}", String::from_utf8_lossy(&answer));
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up_unless_it_may_pause() {
        let (near, _far) = duplex(1);
        let exemption = StallExemption::default();
        let mut stream = Unstalled::new(near, exemption.clone());
        let error = stream.write_all(b"too much").await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        exemption.grant();
        let waiting = tokio::time::timeout(STALL_TIMEOUT * 100, stream.write_all(b"too much"));
        assert!(waiting.await.is_err(), "it waits for as long as we look");
    }
}
