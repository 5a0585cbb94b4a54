//! The caller's side: runs a program through an agent, or tells the agent that it is not needed any more.

use std::io;

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadHalf},
    sync::mpsc,
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{
    channel::{Channel, GREETING_WITHIN},
    frame::{Frame, Run, Stream},
    link::{self, Incoming, Outgoing},
    streams::{Pump, Sink, pass_on},
};
use crate::start::{Ended, Order};

/// Where a program's streams lead on the caller's side.
pub struct Ends {
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub stdout: Box<dyn AsyncWrite + Send + Unpin>,
    pub stderr: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Runs a program and returns how it ended, which may be before all of its output has been passed on: those tasks
/// are with the tracker. When nobody can give orders any more, the program is killed.
pub async fn run(
    channel: Channel,
    mut run: Run,
    ends: Ends,
    orders: mpsc::Receiver<Order>,
    passing: &TaskTracker,
) -> Ended {
    let (read, write) = tokio::io::split(channel);
    let (outgoing, writer) = link::write(write);
    run.has_input = ends.stdin.is_some();
    let (stdout, stdout_pieces) = Sink::new();
    let (stderr, stderr_pieces) = Sink::new();
    passing.spawn(pass_on(Stream::Stdout, stdout_pieces, ends.stdout, outgoing.clone()));
    passing.spawn(pass_on(Stream::Stderr, stderr_pieces, ends.stderr, outgoing.clone()));
    let input = Pump::new();
    // The queue is empty: this cannot wait.
    let _ = outgoing.send(Frame::Run(run)).await;
    let pumping = ends.stdin.map(|stdin| tokio::spawn(input.clone().run(Stream::Stdin, stdin, outgoing.clone())));
    let hearing = Hearing { incoming: Incoming::new(read), stdout: Some(stdout), stderr: Some(stderr), input };
    let ended = tokio::select! {
        heard = hearing.run() => heard.unwrap_or_else(|error| Ended::Lost(lost(&error))),
        () = obey(orders, outgoing) => Ended::Lost("nobody waits for it any more".to_owned()),
    };
    // There is nothing more to say, and perhaps nobody to take it.
    writer.abort();
    if let Some(pumping) = pumping {
        pumping.abort();
    }
    ended
}

/// Tells an agent that it is not needed any more.
pub async fn release(channel: Channel) -> io::Result<()> {
    let asked = ask(channel, Frame::Release);
    match timeout(GREETING_WITHIN, asked).await?? {
        Frame::Released => Ok(()),
        other => Err(io::Error::other(format!("unexpected answer: {other:?}"))),
    }
}

async fn ask(channel: Channel, question: Frame) -> io::Result<Frame> {
    let (read, write) = tokio::io::split(channel);
    let (outgoing, _writer) = link::write(write);
    outgoing.send(question).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
    Incoming::new(read).next().await
}

fn lost(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the agent has closed the connection".to_owned(),
        _ => format!("the connection to the agent broke: {error}"),
    }
}

/// Passes orders on; returns only with the connection.
async fn obey(mut orders: mpsc::Receiver<Order>, outgoing: Outgoing) {
    loop {
        let order = orders.recv().await;
        if outgoing.send(Frame::Order(order.unwrap_or(Order::Kill))).await.is_err() || order.is_none() {
            // The end of the connection, or of the program, is heard by the other half.
            return std::future::pending().await;
        }
    }
}

struct Hearing {
    incoming: Incoming<ReadHalf<Channel>>,
    stdout: Option<Sink>,
    stderr: Option<Sink>,
    input: Pump,
}

impl Hearing {
    async fn run(mut self) -> io::Result<Ended> {
        loop {
            let is_fair = match self.incoming.next().await? {
                Frame::Ended(ended) => return Ok(ended),
                Frame::Refused(why) => return Ok(Ended::Lost(format!("the agent refused: {why}"))),
                Frame::Data(stream, bytes) => self.sink(stream).as_ref().is_some_and(|sink| sink.data(bytes)),
                Frame::Close(stream) => self.sink(stream).take().is_some(),
                Frame::Taken(Stream::Stdin) => self.input.taken(),
                Frame::Shut(Stream::Stdin) => self.input.shut(),
                _ => false,
            };
            if !is_fair {
                return Err(io::Error::other("the agent sent an unexpected message"));
            }
        }
    }

    fn sink(&mut self, stream: Stream) -> &mut Option<Sink> {
        if stream == Stream::Stderr { &mut self.stderr } else { &mut self.stdout }
    }
}
