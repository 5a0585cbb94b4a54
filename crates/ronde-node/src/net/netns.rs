//! Doing things in a network namespace that is not the daemon's own.
//!
//! A socket belongs to the namespace of the thread that made it, for good. So a namespace is a thread that has moved
//! into it and runs small jobs there: it makes sockets, which tokio then serves from anywhere. Pods' namespaces get a
//! thread for as long as somebody holds the [`Netns`]; the daemon's own needs none.
//!
//! It knows nothing of addresses, links or pods, and it never moves a thread of the runtime.

use std::{
    io,
    net::{SocketAddr, UdpSocket as StdUdpSocket},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream, UdpSocket},
    runtime,
    sync::{mpsc, oneshot},
};

/// Jobs that wait for a namespace's thread; each takes microseconds, so that more would only wait elsewhere.
const JOBS_MAX: usize = 64;
/// Connections that the kernel holds for a listener until they are accepted.
const BACKLOG: u32 = 1024;

type Job = Box<dyn FnOnce() + Send>;

/// Where the bridge, the name server and the proxies live.
#[derive(Debug)]
pub enum NetworkPlace {
    /// The network namespace of the daemon, which is the machine's: the daemon is root.
    Host,
    /// A namespace of its own, held by a process that outlives the daemon: an ordinary user may not touch the machine's.
    Own(OwnedFd),
}

/// A network namespace to run jobs in; clones share its thread.
#[derive(Clone)]
pub struct Netns {
    /// The way to the namespace's thread; none for the daemon's own namespace.
    jobs: Option<mpsc::Sender<Job>>,
}

impl NetworkPlace {
    /// Returns the namespace to work in.
    pub(super) async fn netns(&self) -> io::Result<Netns> {
        match self {
            Self::Host => Ok(Netns::here()),
            Self::Own(file) => Netns::enter(file.as_fd()).await,
        }
    }
}

impl Netns {
    /// Returns the daemon's own namespace.
    pub fn here() -> Self {
        Self { jobs: None }
    }

    /// Returns the namespace that a file stands for.
    ///
    /// # Errors
    /// If it is none, or we may not enter it.
    pub async fn enter(file: BorrowedFd<'_>) -> io::Result<Self> {
        let file = file.try_clone_to_owned()?;
        let enter = move || Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?);
        Ok(Self::start(enter).await?.0)
    }

    /// Makes a new, empty namespace, which ends with its last holder.
    ///
    /// # Errors
    /// If we may not.
    pub async fn create() -> io::Result<(Self, OwnedFd)> {
        let create = || {
            #[expect(deprecated, reason = "unsafe only for CLONE_FILES, which is not asked for")]
            rustix::thread::unshare(UnshareFlags::NEWNET)?;
            Ok(OwnedFd::from(fs_err::File::open("/proc/thread-self/ns/net")?.into_file()))
        };
        Self::start(create).await
    }

    /// Starts a thread, takes it to where it belongs, and lets it serve jobs until nobody can send any.
    async fn start<T, F>(arrive: F) -> io::Result<(Self, T)>
    where
        T: Send + 'static,
        F: FnOnce() -> io::Result<T> + Send + 'static,
    {
        let (jobs, mut queue) = mpsc::channel::<Job>(JOBS_MAX);
        let (arrived, arrival) = oneshot::channel();
        let serve = move || {
            let result = arrive();
            let is_there = result.is_ok();
            if arrived.send(result).is_ok() && is_there {
                while let Some(job) = queue.blocking_recv() {
                    job();
                }
            }
        };
        thread::Builder::new().name("netns".to_owned()).spawn(serve)?;
        let value = arrival.await.map_err(|_| io::Error::other("the thread of a network namespace has exited"))??;
        Ok((Self { jobs: Some(jobs) }, value))
    }

    /// Runs a job in the namespace.
    ///
    /// # Errors
    /// Those of the job.
    pub async fn run<T, F>(&self, job: F) -> io::Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> io::Result<T> + Send + 'static,
    {
        let ended = || io::Error::other("the thread of a network namespace has exited");
        let Some(jobs) = &self.jobs else {
            return tokio::task::spawn_blocking(job).await.map_err(|_| ended())?;
        };
        let (send, result) = oneshot::channel();
        let job: Job = Box::new(move || _ = send.send(job()));
        jobs.send(job).await.map_err(|_| ended())?;
        result.await.map_err(|_| ended())?
    }

    /// Listens for connections.
    ///
    /// # Errors
    /// If the address is taken or not of this namespace.
    pub async fn listen_tcp(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let bind = move || {
            let socket = tcp_socket(address)?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(socket)
        };
        self.run(bind).await?.listen(BACKLOG)
    }

    /// Opens a socket for datagrams.
    ///
    /// # Errors
    /// If the address is taken or not of this namespace.
    pub async fn bind_udp(&self, address: SocketAddr) -> io::Result<UdpSocket> {
        let bind = move || {
            let socket = StdUdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        UdpSocket::from_std(self.run(bind).await?)
    }

    /// Connects to an address as seen from the namespace.
    ///
    /// # Errors
    /// If it cannot be reached; there is no time limit beyond the kernel's.
    pub async fn connect_tcp(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.run(move || tcp_socket(address)).await?.connect(address).await
    }

    /// Opens a way to the namespace's links, addresses and routes.
    ///
    /// # Errors
    /// If the kernel gives no socket.
    pub async fn netlink(&self) -> io::Result<rtnetlink::Handle> {
        let runtime = runtime::Handle::current();
        let open = move || {
            let _entered = runtime.enter();
            rtnetlink::new_connection()
        };
        let (connection, handle, _messages) = self.run(open).await?;
        // Ends by itself with the last handle.
        tokio::spawn(connection);
        Ok(handle)
    }
}

fn tcp_socket(address: SocketAddr) -> io::Result<TcpSocket> {
    if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
}
