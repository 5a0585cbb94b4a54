//! How ranks that know nothing of each other meet: everybody hands in a card and gets the cards of all.
//!
//! [`Server`] is what a launcher runs; a directory that all ranks see does without one. Both gather by a scope, a
//! text that is new for every ring, so one server can form any number of rings one after the other.

mod directory;
mod server;

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream, ToSocketAddrs as _},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use crate::{
    clock,
    codec::{Reader, Writer},
    error::{Error, Result},
    handshake::{self, Secret, Side},
    types::Rank,
};

pub use self::server::Server;

/// A card or an answer is never longer: a few kilobytes for each of thousands of ranks.
const FRAME_MAX: usize = 64 * 1024 * 1024;

/// Where ranks meet.
#[derive(Debug, Clone)]
pub enum Rendezvous {
    /// There is one rank only.
    Alone,
    /// A [`Server`], as `host:port`.
    Server(String),
    /// A directory that all ranks can write.
    Directory(PathBuf),
}

/// A rank at its rendezvous.
#[derive(Debug)]
pub(crate) struct Meeting<'a> {
    pub(crate) place: &'a Rendezvous,
    pub(crate) secret: &'a Secret,
    pub(crate) scope: &'a str,
    pub(crate) rank: Rank,
    pub(crate) size: usize,
    pub(crate) deadline: Instant,
}

impl Meeting<'_> {
    /// Hands in a card for a step of the formation; returns those of all ranks.
    pub(crate) fn exchange(&self, step: &str, card: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        match self.place {
            Rendezvous::Alone if self.size == 1 => Ok(vec![card]),
            Rendezvous::Alone => Err(Error::Bootstrap(format!("no rendezvous given for {} ranks", self.size))),
            Rendezvous::Server(address) => self.ask(address, step, &card),
            Rendezvous::Directory(path) => directory::exchange(self, path, step, &card),
        }
    }

    fn ask(&self, address: &str, step: &str, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        let at = |what: &str| Error::Bootstrap(format!("rendezvous `{address}`: {what}"));
        let mut stream = self.call(address).map_err(|error| at(&error.to_string()))?;
        let left = self.deadline.saturating_duration_since(clock::now());
        let mut request = Writer::default();
        request.text(&format!("{}/{step}", self.scope)).size(self.rank.0).size(self.size);
        request.number(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)).bytes(card);
        write_frame(&mut stream, &request.0).map_err(|error| at(&error.to_string()))?;
        // The server answers in time, if only with the names of those who are missing.
        let _ = stream.set_read_timeout(Some(left + Duration::from_secs(5)));
        let answer = read_frame(&mut stream).map_err(|error| at(&error.to_string()))?;
        let mut reader = Reader(&answer);
        let cards = match reader.byte() {
            Some(0) => reader.list(|reader| Some(reader.bytes()?.to_vec())),
            _ => return Err(at(reader.text().unwrap_or("it did not answer"))),
        };
        cards.filter(|cards| cards.len() == self.size).ok_or_else(|| at("its answer is malformed"))
    }

    /// The launcher may start its server after the first ranks, or be too busy to greet: they call again until the
    /// deadline. The server knows nothing of who was not greeted.
    fn call(&self, address: &str) -> std::io::Result<TcpStream> {
        let greeted = |mut stream: TcpStream| {
            handshake::greet(&mut stream, self.secret, Side::Caller)?;
            Ok(stream)
        };
        loop {
            match address.to_socket_addrs().and_then(connect_any).and_then(greeted) {
                Ok(stream) => return Ok(stream),
                Err(error) if handshake::is_final(&error) || clock::now() >= self.deadline => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

/// Connects with the first of a name's addresses that listens: the server may be at any of them.
fn connect_any(addresses: impl Iterator<Item = SocketAddr>) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::other("the host name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn write_frame(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(&(bytes.len() as u64).to_le_bytes())?;
    stream.write_all(bytes)
}

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 8];
    stream.read_exact(&mut len)?;
    let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(usize::MAX);
    if len > FRAME_MAX {
        return Err(std::io::Error::other("a message is too long"));
    }
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{
        net::{SocketAddr, TcpListener},
        thread,
        time::Duration,
    };

    use super::{Meeting, Rank, Rendezvous, Secret, Side, clock, connect_any, handshake};

    #[test]
    fn a_server_that_has_no_time_to_greet_is_called_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let secret = Secret::new(b"of the ring");
        let meeting = Meeting {
            place: &Rendezvous::Alone,
            secret: &secret,
            scope: "",
            rank: Rank(0),
            size: 1,
            deadline: clock::now() + Duration::from_secs(60),
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(listener.accept().unwrap());
                handshake::greet(&mut listener.accept().unwrap().0, &secret, Side::Called).unwrap();
            });
            meeting.call(&address).unwrap();
        });
    }

    #[test]
    fn a_server_is_found_behind_an_address_where_nobody_listens() {
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let address = listener.local_addr().unwrap();
        let deaf = SocketAddr::new([127, 0, 0, 3].into(), address.port());
        assert_eq!(connect_any([deaf, address].into_iter()).unwrap().peer_addr().unwrap(), address);
        assert!(connect_any([].into_iter()).is_err());
    }
}
