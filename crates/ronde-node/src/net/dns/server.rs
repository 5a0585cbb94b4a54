//! Serves the zone by datagrams and by streams; passes on what is not ours.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::Name,
};
use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};

use super::{
    answer::{DATAGRAM_MAX, Reply, datagram_max, encode, response_to},
    upstream::{Transport, Upstream, read_framed, write_framed},
    zone::Zone,
};

/// Questions under way; each may wait 6 s for others and holds a few kilobytes.
const QUESTIONS_MAX: usize = 1024;
/// Open streams.
const STREAMS_MAX: usize = 256;
/// A stream that asks nothing for so long is closed.
const STREAM_IDLE: Duration = Duration::from_secs(10);
/// After a failure, which is mostly for want of memory or files.
const PAUSE: Duration = Duration::from_millis(50);
/// Length of a message without any question.
const HEADER_LENGTH: usize = 12;

/// Answers questions about names.
#[derive(Clone)]
pub struct NameServer {
    /// Always the newest; replaced by whoever made the server.
    pub zone: watch::Receiver<Arc<Zone>>,
    pub upstream: Upstream,
}

impl NameServer {
    /// Serves datagrams for ever.
    pub async fn serve_datagrams(self, socket: UdpSocket) {
        let (socket, slots) = (Arc::new(socket), Arc::new(Semaphore::new(QUESTIONS_MAX)));
        let mut buffer = vec![0; usize::from(DATAGRAM_MAX)];
        loop {
            let Ok((length, client)) = socket.recv_from(&mut buffer).await else {
                sleep(PAUSE).await;
                continue;
            };
            // Too many at once: the client asks again.
            let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
            let (server, socket, request) = (self.clone(), socket.clone(), buffer[..length].to_vec());
            tokio::spawn(async move {
                let _slot = slot;
                if let Some(answer) = server.answer(&request, Transport::Datagram).await {
                    let _ = socket.send_to(&answer, client).await;
                }
            });
        }
    }

    /// Serves streams for ever.
    pub async fn serve_streams(self, listener: TcpListener) {
        let slots = Arc::new(Semaphore::new(STREAMS_MAX));
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, client)) => {
                    let server = self.clone();
                    tokio::spawn(async move {
                        let _slot = slot;
                        server.serve_stream(stream, client).await;
                    });
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn serve_stream(&self, mut stream: TcpStream, client: SocketAddr) {
        while let Ok(Ok(request)) = timeout(STREAM_IDLE, read_framed(&mut stream)).await {
            let Some(answer) = self.answer(&request, Transport::Stream).await else { return };
            if !matches!(timeout(STREAM_IDLE, write_framed(&mut stream, &answer)).await, Ok(Ok(()))) {
                tracing::debug!(%client, "cannot send an answer to a client");
                return;
            }
        }
    }

    /// Answers the bytes of a request; none if it is not worth an answer.
    pub async fn answer(&self, bytes: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let Ok(request) = Message::from_vec(bytes) else { return malformed(bytes) };
        if request.metadata.message_type != MessageType::Query {
            return None;
        }
        let longest = if transport == Transport::Stream { usize::from(u16::MAX) } else { datagram_max(&request) };
        let zone = self.zone.borrow().clone();
        match zone.reply(&request) {
            Reply::Answer(answer) => encode(&answer, longest),
            Reply::Forward => match self.upstream.ask(bytes, transport).await {
                Some(answer) => Some(answer),
                None => encode(&failure(response_to(&request)), longest),
            },
            Reply::Follow { answer, target } => encode(&self.follow(answer, target, transport).await, longest),
        }
    }

    /// Completes an answer that ends with an alias: clients do not ask on by themselves.
    async fn follow(&self, mut answer: Message, target: Name, transport: Transport) -> Message {
        let Some(asked) = answer.queries.first().map(Query::query_type) else { return failure(answer) };
        let mut question = Message::new(answer.metadata.id, MessageType::Query, OpCode::Query);
        question.metadata.recursion_desired = true;
        question.queries.push(Query::query(target, asked));
        let Ok(bytes) = question.to_vec() else { return failure(answer) };
        let found = self.upstream.ask(&bytes, transport).await;
        let Some(found) = found.and_then(|bytes| Message::from_vec(&bytes).ok()) else { return failure(answer) };
        answer.metadata.response_code = found.metadata.response_code;
        answer.metadata.truncation = found.metadata.truncation;
        answer.metadata.authoritative = false;
        answer.answers.extend(found.answers);
        answer.authorities.extend(found.authorities);
        answer
    }
}

fn failure(mut answer: Message) -> Message {
    answer.metadata.response_code = ResponseCode::ServFail;
    answer.metadata.authoritative = false;
    answer
}

/// Tells a client whose request cannot be read; but not one that sends no request at all.
fn malformed(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = bytes.get(..HEADER_LENGTH)?;
    let is_response = header[2] & 0x80 != 0;
    let id = u16::from_be_bytes([header[0], header[1]]);
    let answer = Message::error_msg(id, OpCode::Query, ResponseCode::FormErr);
    if is_response { None } else { answer.to_vec().ok() }
}
