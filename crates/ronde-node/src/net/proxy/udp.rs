//! Passes datagrams on: every client gets a socket of its own towards its backend, for as long as it is in use.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    net::UdpSocket,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{balance::Balancer, plan::Backend};
use crate::net::netns::Netns;

/// Clients of one front at a time: one file and one buffer each.
const CLIENTS_MAX: usize = 1024;
const DATAGRAM_MAX: usize = 65_536;
/// A client that neither sends nor is sent anything for so long is forgotten, as the kernel's own tables do.
const IDLE: Duration = Duration::from_secs(120);
/// After a failure, which is mostly for want of memory.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves one front.
pub struct Forward {
    socket: Arc<UdpSocket>,
    way: Netns,
    balancer: Arc<Mutex<Balancer>>,
    /// Ends every client's way back, too.
    stop: CancellationToken,
    /// Owned by this front's task; the way back of a client removes itself.
    sessions: Arc<Mutex<BTreeMap<SocketAddr, Session>>>,
}

#[derive(Clone)]
struct Session {
    server: Arc<UdpSocket>,
    backend: Backend,
    last_used: Instant,
    stop: CancellationToken,
}

impl Forward {
    pub fn new(socket: UdpSocket, way: Netns, balancer: Arc<Mutex<Balancer>>, stop: CancellationToken) -> Self {
        Self { socket: Arc::new(socket), way, balancer, stop, sessions: Arc::default() }
    }

    /// Passes datagrams on for ever.
    pub async fn serve(self) {
        let mut buffer = vec![0; DATAGRAM_MAX];
        loop {
            let Ok((length, client)) = self.socket.recv_from(&mut buffer).await else {
                sleep(PAUSE).await;
                continue;
            };
            match self.session(client).await {
                Ok(Some(session)) => _ = session.server.send(&buffer[..length]).await,
                Ok(None) => tracing::debug!(%client, "too many clients, datagram dropped"),
                Err(error) => tracing::debug!(%client, %error, "cannot reach an endpoint, datagram dropped"),
            }
        }
    }

    /// Returns the client's session, a new one if it has none or its backend is gone; none if there are too many.
    async fn session(&self, client: SocketAddr) -> io::Result<Option<Session>> {
        if let Some(session) = self.known(client) {
            return Ok(Some(session));
        }
        if self.sessions.lock().len() >= CLIENTS_MAX {
            return Ok(None);
        }
        let now = Instant::now();
        let choice = self.balancer.lock().choose(client.ip(), now);
        let Some((Backend::Pod(address), backend)) = choice.first().map(|backend| (*backend, *backend)) else {
            return Ok(None);
        };
        let server = self.way.bind_udp((Ipv4Addr::UNSPECIFIED, 0).into()).await?;
        server.connect(SocketAddr::V4(address)).await?;
        self.balancer.lock().served(client.ip(), backend, now);
        let session = Session { server: Arc::new(server), backend, last_used: now, stop: self.stop.child_token() };
        self.sessions.lock().insert(client, session.clone());
        tokio::spawn(session.stop.clone().run_until_cancelled_owned(self.way_back(client, session.server.clone())));
        Ok(Some(session))
    }

    fn known(&self, client: SocketAddr) -> Option<Session> {
        let mut sessions = self.sessions.lock();
        let session = sessions.get_mut(&client)?;
        if self.balancer.lock().has(session.backend) {
            session.last_used = Instant::now();
            return Some(session.clone());
        }
        session.stop.cancel();
        sessions.remove(&client);
        None
    }

    /// Passes answers back to a client until it is idle.
    fn way_back(&self, client: SocketAddr, server: Arc<UdpSocket>) -> impl Future<Output = ()> + Send + 'static {
        let (socket, sessions) = (self.socket.clone(), self.sessions.clone());
        async move {
            let mut buffer = vec![0; DATAGRAM_MAX];
            loop {
                match timeout(IDLE, server.recv(&mut buffer)).await {
                    Ok(Ok(length)) => _ = socket.send_to(&buffer[..length], client).await,
                    // The endpoint's port is closed; the next datagram may find it open.
                    Ok(Err(_)) => {}
                    Err(_) if forget_idle(&sessions, client) => return,
                    Err(_) => {}
                }
            }
        }
    }
}

/// Forgets a client that has sent nothing for long.
fn forget_idle(sessions: &Mutex<BTreeMap<SocketAddr, Session>>, client: SocketAddr) -> bool {
    let mut sessions = sessions.lock();
    let is_idle = sessions.get(&client).is_none_or(|session| session.last_used.elapsed() >= IDLE);
    if is_idle {
        sessions.remove(&client);
    }
    is_idle
}
