//! A rank as a process of this machine, with a keeper above it ([`crate::keep`]).

use std::{
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::net::UnixStream as Socket,
    },
    path::{Path, PathBuf},
    process::Stdio,
};

use futures::future::BoxFuture;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, empty},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf, pipe},
    },
    process::{Child, Command},
    sync::{mpsc, oneshot},
};

use super::{Ended, Order, Program, StartError, Started, Starter};
use crate::keeper::{self, Kept};

/// Orders that wait to be written; nobody gives more than a few.
pub(crate) const ORDERS_MAX: usize = 16;
const KILL: u8 = 9;

/// Starts ranks on this machine.
#[derive(Debug, Clone)]
pub struct Local {
    /// A program whose `main` calls [`keeper::run`] first.
    pub keeper: PathBuf,
}

impl Default for Local {
    /// The keeper is this very program, whatever has become of its file.
    fn default() -> Self {
        Self { keeper: PathBuf::from("/proc/self/exe") }
    }
}

impl Starter for Local {
    fn start<'a>(&'a self, host: &'a str, program: &'a Program) -> BoxFuture<'a, Result<Started, StartError>> {
        Box::pin(async move {
            let spawned = self.spawn(program, Path::new(keeper::NO_INPUT), Output::Piped);
            spawned.map_err(|error| StartError { host: host.to_owned(), why: error.to_string() })
        })
    }
}

/// Where the output of a program goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// To who started it.
    Piped,
    /// Where our own goes; who started it reads nothing.
    Inherited,
}

impl Output {
    fn stream(self) -> Stdio {
        match self {
            Self::Piped => Stdio::piped(),
            Self::Inherited => Stdio::inherit(),
        }
    }
}

/// What there is to read: nothing if the stream is not ours.
fn reader(stream: Option<impl AsyncRead + Send + Unpin + 'static>) -> Box<dyn AsyncRead + Send + Unpin> {
    stream.map_or_else(|| Box::new(empty()) as _, |stream| Box::new(stream) as _)
}

impl Local {
    /// Starts a program that reads from a file, `/proc/PID/fd/N` for an open one.
    pub(crate) fn spawn(&self, program: &Program, stdin: &Path, output: Output) -> io::Result<Started> {
        let words = ronde_process::Program {
            argv: program.words.clone(),
            env: program.environment.clone().into_iter().collect(),
            folder: program.directory.display().to_string(),
        };
        let frame = keeper::frame(&Kept(words, stdin.to_owned()))?;
        let (own, keepers) = Socket::pair()?;
        own.set_nonblocking(true)?;
        let mut child = Command::new(&self.keeper)
            .arg0(keeper::NAME)
            .env_clear()
            // Ctrl-C in a terminal is for the launcher, which passes it on in its own way.
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(keepers)))
            .stdout(output.stream())
            .stderr(output.stream())
            .spawn()?;
        let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let (orders, given) = mpsc::channel(ORDERS_MAX);
        let (end, ended) = oneshot::channel();
        let (reader, writer) = UnixStream::from_std(own)?.into_split();
        tokio::spawn(watch(Keeper { child, reader, writer }, frame, given, end));
        Ok(Started { stdout, stderr, orders, ended })
    }
}

/// A pipe to a program's stdin. Our copy of its reading end lives as long as the program, which opens it by its path.
pub(crate) struct Input {
    pub reader: OwnedFd,
    pub writer: pipe::Sender,
}

impl Input {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { reader, writer: pipe::Sender::from_owned_fd(writer)? })
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.reader.as_raw_fd()))
    }
}

struct Keeper {
    child: Child,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
}

/// Passes orders to the keeper until it has told the end, and then waits for its own.
async fn watch(mut keeper: Keeper, frame: Vec<u8>, orders: mpsc::Receiver<Order>, end: oneshot::Sender<Ended>) {
    let mut report = [0; keeper::REPORT];
    let ended = tokio::select! {
        read = keeper.reader.read_exact(&mut report) => read.map(|_| keeper::read_report(report)),
        never = pass_on(&mut keeper.writer, frame, orders) => match never {},
    };
    // The receiver may have lost interest.
    let _ = end.send(match ended {
        Ok(ronde_process::Ended::Code(code)) => Ended::Code(code),
        Ok(ronde_process::Ended::Signal(number)) => Ended::Signal(number),
        Err(error) => Ended::Lost(format!("its keeper is gone ({error})")),
    });
    // Until then it clears away what the program left behind; our side of the socket stays open.
    let _ = keeper.child.wait().await;
}

/// A keeper that takes no orders any more has ended; that is seen by its report or the lack of one.
async fn pass_on(
    writer: &mut OwnedWriteHalf,
    frame: Vec<u8>,
    mut orders: mpsc::Receiver<Order>,
) -> std::convert::Infallible {
    let _ = writer.write_all(&frame).await;
    loop {
        let order = orders.recv().await;
        let _ = writer.write_all(&[number(order)]).await;
        if order.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Nobody there to give orders: the rank has no owner and ends.
fn number(order: Option<Order>) -> u8 {
    match order {
        Some(Order::Signal(number)) => u8::try_from(number).unwrap_or_default(),
        Some(Order::Kill) | None => KILL,
    }
}
