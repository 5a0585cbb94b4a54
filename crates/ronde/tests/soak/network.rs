//! A way to the API server that can be cut, or go silent, for all connections at once.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

const BUFFER: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Open,
    /// Connections stay, and nothing comes through.
    Silent,
    /// Connections end, and new ones are refused.
    Cut,
}

pub struct Way {
    pub port: u16,
    state: watch::Sender<State>,
    server: JoinHandle<()>,
}

impl Way {
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, seen) = watch::channel(State::Open);
        Self { port, state, server: tokio::spawn(serve(listener, server, seen)) }
    }

    pub fn set(&self, state: State) {
        self.state.send_replace(state);
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, server: SocketAddr, state: watch::Receiver<State>) {
    while let Ok((near, _)) = listener.accept().await {
        tokio::spawn(carry(near, server, state.clone()));
    }
}

/// Carries one connection until one side ends it or the way is cut.
async fn carry(mut near: TcpStream, server: SocketAddr, mut state: watch::Receiver<State>) {
    if wait_for_sound(&mut state).await.is_err() || *state.borrow() == State::Cut {
        return;
    }
    let Ok(mut far) = TcpStream::connect(server).await else { return };
    let ((near_read, near_write), (far_read, far_write)) = (near.split(), far.split());
    tokio::select! {
        _ = copy(near_read, far_write, state.clone()) => {}
        _ = copy(far_read, near_write, state.clone()) => {}
        _ = state.wait_for(|state| *state == State::Cut) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 || wait_for_sound(&mut state).await.is_err() {
            return Ok(());
        }
        to.write_all(&buffer[..count]).await?;
    }
}

async fn wait_for_sound(state: &mut watch::Receiver<State>) -> Result<(), watch::error::RecvError> {
    state.wait_for(|state| *state != State::Silent).await.map(drop)
}
