//! Passes connections on, both ways at once, each way ended by itself.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::copy_bidirectional_with_sizes,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{balance::Balancer, plan::Backend};
use crate::net::netns::Netns;

/// Connections through one front: two files and two buffers each.
const CONNECTIONS_MAX: usize = 8192;
const BUFFER_SIZE: usize = 32 * 1024;
/// A pod on the same machine answers at once or never.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// After a failed accept, which is mostly for want of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves one front.
pub struct Forward {
    /// Where pods are reached from.
    pub way: Netns,
    pub balancer: Arc<Mutex<Balancer>>,
    pub tasks: TaskTracker,
    /// Ends connections under way.
    pub stop: CancellationToken,
}

impl Forward {
    /// Accepts connections for ever. Those under way go on when the front is gone, as they do in Kubernetes.
    pub async fn serve(self, listener: TcpListener) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let forward = Arc::new(self);
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, client)) => {
                    let own = forward.clone();
                    forward.tasks.spawn(async move {
                        let _slot = slot;
                        own.stop.run_until_cancelled(own.pass(stream, client)).await;
                    });
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    async fn pass(&self, mut client: TcpStream, from: SocketAddr) {
        let Some(mut server) = self.connect(from).await else {
            reset(&client);
            return;
        };
        // A proxy that waits for more would slow down who waits for an answer.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let copied = copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER_SIZE, BUFFER_SIZE).await;
        if copied.is_err() {
            // A broken connection must not look like one that came to its end.
            reset(&client);
            reset(&server);
        }
    }

    async fn connect(&self, from: SocketAddr) -> Option<TcpStream> {
        let choice = self.balancer.lock().choose(from.ip(), Instant::now());
        for backend in choice {
            match timeout(CONNECT_PATIENCE, self.connect_to(backend)).await {
                Ok(Ok(server)) => {
                    self.balancer.lock().served(from.ip(), backend, Instant::now());
                    return Some(server);
                }
                Ok(Err(error)) => tracing::debug!(%backend, %error, "cannot reach an endpoint"),
                Err(_) => tracing::debug!(%backend, "an endpoint timed out"),
            }
        }
        None
    }

    async fn connect_to(&self, backend: Backend) -> io::Result<TcpStream> {
        match backend {
            Backend::Pod(address) => self.way.connect_tcp(address.into()).await,
            Backend::Daemon(address) => TcpStream::connect(address).await,
        }
    }
}

/// Has the connection end with a reset when it is dropped.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}
