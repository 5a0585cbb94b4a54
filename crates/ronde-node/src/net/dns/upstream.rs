//! Asks the machine's own name servers, from the daemon's own namespace: some listen on the machine's loopback only.
//!
//! Questions and answers pass through as they are. The list is read anew for every question: a laptop moves.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use hickory_proto::op::{Message, MessageType};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use crate::net::resolver::Resolver;

const PORT: u16 = 53;
/// More are not asked, as the C library does not either.
const SERVERS_MAX: usize = 3;
/// For one server. All three together take less than two patient clients' 5 s.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a question came, and so how it is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Datagram,
    Stream,
}

/// The way to the machine's name servers.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The file that lists the servers.
    pub resolv_conf: PathBuf,
    /// Ourselves, who must not be asked.
    pub own: Ipv4Addr,
    /// Where the servers listen; not [`PORT`] in tests only.
    pub port: u16,
}

impl Upstream {
    pub fn new(resolv_conf: PathBuf, own: Ipv4Addr) -> Self {
        Self { resolv_conf, own, port: PORT }
    }

    /// Asks one server after the other; none if nobody answers.
    pub async fn ask(&self, question: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let resolver = Resolver::read(&self.resolv_conf);
        let others = resolver.addresses().filter(|address| *address != IpAddr::V4(self.own));
        for address in others.take(SERVERS_MAX) {
            let server = SocketAddr::new(address, self.port);
            let answer = async {
                match transport {
                    Transport::Datagram => ask_by_datagram(server, question).await,
                    Transport::Stream => ask_by_stream(server, question).await,
                }
            };
            match timeout(PATIENCE, answer).await {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(error)) => tracing::debug!(%server, %error, "a name server failed"),
                Err(_) => tracing::debug!(%server, "a name server timed out"),
            }
        }
        None
    }
}

async fn ask_by_datagram(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let any = if server.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    // A port of its own for every question: harder to guess for who would forge an answer.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut answer = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut answer).await?;
        if is_answer(question, &answer[..length]) {
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

async fn ask_by_stream(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    write_framed(&mut stream, question).await?;
    let answer = read_framed(&mut stream).await?;
    if is_answer(question, &answer) {
        Ok(answer)
    } else {
        Err(io::Error::other("the answer does not match the question"))
    }
}

/// Reads a message with its length before it.
pub async fn read_framed(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// Writes a message with its length before it.
pub async fn write_framed(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let framed: Vec<u8> = length.to_be_bytes().iter().chain(message).copied().collect();
    stream.write_all(&framed).await
}

fn is_answer(question: &[u8], answer: &[u8]) -> bool {
    let (Ok(question), Ok(answer)) = (Message::from_vec(question), Message::from_vec(answer)) else { return false };
    answer.metadata.id == question.metadata.id
        && answer.metadata.message_type == MessageType::Response
        && (answer.queries == question.queries || answer.queries.is_empty())
}
