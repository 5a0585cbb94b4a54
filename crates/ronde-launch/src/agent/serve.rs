//! The agent's side of one connection: what the caller asks for first, and then the life of one program.

use std::{io, path::PathBuf, time::Duration};

use tokio::{
    io::ReadHalf,
    net::TcpStream,
    sync::{broadcast, mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

use super::{
    channel::{Channel, GREETING_WITHIN, Listening},
    frame::{Frame, Run, Stream},
    link::{self, Incoming, Outgoing},
    programs::Programs,
    roster::{Admission, Roster},
    streams::{Pump, Sink, pass_on},
};
use crate::{
    keeper::NO_INPUT,
    start::{Ended, Order, Started, local::Input},
};

/// Time to end after SIGTERM for a program that has lost its caller. The rest of the 2 s is for SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
const SIGTERM: i32 = 15;

/// Serves one connection to its end.
pub async fn serve(connection: TcpStream, listening: Listening, programs: Programs, roster: Roster) {
    let peer = connection.peer_addr().map_or_else(|_| "?".to_owned(), |peer| peer.to_string());
    match listening.accept(connection).await {
        Ok(channel) => {
            if let Err(error) = answer(channel, &programs, &roster).await {
                tracing::info!(%peer, %error, "a client has disconnected");
            }
        }
        Err(error) => tracing::warn!(%peer, %error, "rejected a connection"),
    }
}

async fn answer(channel: Channel, programs: &Programs, roster: &Roster) -> io::Result<()> {
    let (read, write) = tokio::io::split(channel);
    let mut incoming = Incoming::new(read);
    let first = timeout(GREETING_WITHIN, incoming.any()).await??;
    let (outgoing, writer) = link::write(write);
    // Held until the answer is out: without programs a released agent ends.
    let mut place = roster.admit();
    let reply = match first {
        Frame::Run(run) => match &mut place {
            Ok(place) => run_program(run, programs, place, incoming, &outgoing).await?,
            Err(why) => Frame::Refused((*why).to_owned()),
        },
        Frame::Release => {
            tracing::info!("released");
            roster.release();
            Frame::Released
        }
        Frame::Ping => Frame::Ping,
        other => Frame::Refused(format!("unexpected first message: {other:?}")),
    };
    outgoing.send(reply).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
    drop(outgoing);
    timeout(GREETING_WITHIN, writer).await??
}

/// Runs a program to its end; the end of the connection is its end too.
async fn run_program(
    run: Run,
    programs: &Programs,
    place: &mut Admission,
    incoming: Incoming<ReadHalf<Channel>>,
    outgoing: &Outgoing,
) -> io::Result<Frame> {
    let input = if run.has_input { Some(Input::new()?) } else { None };
    let stdin = input.as_ref().map_or_else(|| PathBuf::from(NO_INPUT), Input::path);
    let started = match programs.start(run, &stdin) {
        Ok(started) => started,
        Err(error) => return Ok(Frame::Refused(error.why)),
    };
    let Started { stdout, stderr, orders, mut ended } = started;
    let mut tasks = JoinSet::new();
    let (out, err) = (Pump::new(), Pump::new());
    tasks.spawn(out.clone().run(Stream::Stdout, stdout, outgoing.clone()));
    tasks.spawn(err.clone().run(Stream::Stderr, stderr, outgoing.clone()));
    let (sink, pieces) = Sink::new();
    let passing = input.map(|input| tokio::spawn(feed(input, pieces, outgoing.clone())));
    let hearing = Hearing { incoming, out, err, stdin: Some(sink), orders: orders.clone() };
    let finished = tokio::select! {
        ended = finish(&mut ended, &mut tasks) => Ok(Frame::Ended(ended)),
        error = hearing.run() => Err(error),
        () = obey(&mut place.orders, &orders) => Err(io::Error::other("the agent is stopping")),
    };
    if let Some(passing) = passing {
        passing.abort();
    }
    if finished.is_err() {
        drop(tasks);
        stop(&orders, &mut ended).await;
    }
    finished
}

/// Waits for the program's end, and until the caller has all of its output.
async fn finish(ended: &mut oneshot::Receiver<Ended>, streams: &mut JoinSet<()>) -> Ended {
    let ended = ended.await.unwrap_or_else(|_| Ended::Lost("nobody watched it".to_owned()));
    // Without its keeper something may live on that has the streams, and nobody knows for how long.
    if !matches!(ended, Ended::Lost(_)) {
        while streams.join_next().await.is_some() {}
    }
    ended
}

/// Passes on what all programs are told; never returns.
async fn obey(all: &mut broadcast::Receiver<Order>, orders: &mpsc::Sender<Order>) {
    loop {
        match all.recv().await {
            Ok(order) => _ = orders.send(order).await,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// The caller is gone: so must be all that it started.
async fn stop(orders: &mpsc::Sender<Order>, ended: &mut oneshot::Receiver<Ended>) {
    let _ = orders.send(Order::Signal(SIGTERM)).await;
    if timeout(GRACE, &mut *ended).await.is_err() {
        let _ = orders.send(Order::Kill).await;
        let _ = ended.await;
    }
}

struct Hearing {
    incoming: Incoming<ReadHalf<Channel>>,
    out: Pump,
    err: Pump,
    stdin: Option<Sink>,
    orders: mpsc::Sender<Order>,
}

impl Hearing {
    /// Hears the caller until that fails, and returns why.
    async fn run(mut self) -> io::Error {
        loop {
            let is_fair = match self.incoming.next().await {
                Ok(Frame::Order(order)) => self.orders.send(order).await.is_ok(),
                Ok(Frame::Data(Stream::Stdin, bytes)) => self.stdin.as_ref().is_some_and(|sink| sink.data(bytes)),
                Ok(Frame::Close(Stream::Stdin)) => self.stdin.take().is_some(),
                Ok(Frame::Taken(Stream::Stdout)) => self.out.taken(),
                Ok(Frame::Taken(Stream::Stderr)) => self.err.taken(),
                Ok(Frame::Shut(Stream::Stdout)) => self.out.shut(),
                Ok(Frame::Shut(Stream::Stderr)) => self.err.shut(),
                Ok(_) => false,
                Err(error) => return error,
            };
            if !is_fair {
                return io::Error::other("the client sent an unexpected message");
            }
        }
    }
}

/// Ends with the input, but keeps the reader: who starts late finds what was written.
async fn feed(Input { reader, writer }: Input, pieces: mpsc::Receiver<Vec<u8>>, outgoing: Outgoing) {
    pass_on(Stream::Stdin, pieces, writer, outgoing).await;
    let _reader = reader;
    std::future::pending::<()>().await;
}
