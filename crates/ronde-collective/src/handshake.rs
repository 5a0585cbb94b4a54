//! The first words on every connection: which version we speak, and that both know the job's secret.
//!
//! Each side sends a random challenge and proves the secret by a code over both; the secret itself never travels.
//! Nothing else is read from a connection before that. Used between ranks, with the rendezvous and on the control channel.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use ring::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};

use crate::clock;

/// Goes up with every change of what ranks say to each other.
pub const VERSION: u16 = 3;
const MAGIC: [u8; 6] = *b"RONDE\n";
const CHALLENGE: usize = 16;
/// The shortest wait: none at all would mean for ever.
pub(crate) const MOMENT: Duration = Duration::from_millis(1);
/// A peer that says nothing for so long is none of ours.
const PATIENCE: Duration = Duration::from_secs(5);
/// One of ours that has begun to speak may be interrupted for longer.
const PROOF_WITHIN: Duration = Duration::from_secs(20);

/// The job's secret.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    pub fn new(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Who speaks first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Caller,
    Called,
}

impl Side {
    const fn word(self) -> &'static [u8] {
        match self {
            Self::Caller => b"caller",
            Self::Called => b"called",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Caller => Self::Called,
            Self::Called => Self::Caller,
        }
    }
}

/// Makes sure that the other side speaks our version and knows the secret.
pub fn greet(stream: &mut TcpStream, secret: &Secret, side: Side) -> io::Result<()> {
    greet_until(clock::now() + PATIENCE + PROOF_WITHIN, stream, secret, side)
}

/// The same, by a deadline.
pub(crate) fn greet_until(deadline: Instant, stream: &mut TcpStream, secret: &Secret, side: Side) -> io::Result<()> {
    let begun = clock::now();
    let left = |limit: Duration| limit.min(deadline.saturating_duration_since(clock::now())).max(MOMENT);
    stream.set_nonblocking(false)?;
    // Two short words in a row: the second must not wait for the first one's receipt, 40 ms each.
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(left(PATIENCE)))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let own = random_bytes::<CHALLENGE>()?;
    stream.write_all(&[&MAGIC[..], &VERSION.to_le_bytes(), &own].concat())?;
    let mut head = [0; MAGIC.len() + 2 + CHALLENGE];
    stream.read_exact(&mut head)?;
    let theirs = checked_head(&head)?;
    let (caller, called) = if side == Side::Caller { (&own[..], theirs) } else { (theirs, &own[..]) };
    let proof = |side: Side| hmac::sign(&secret.0, &[side.word(), caller, called].concat());
    stream.write_all(proof(side).as_ref())?;
    let mut answer = [0; 32];
    stream.set_read_timeout(Some(left(PROOF_WITHIN)))?;
    stream.read_exact(&mut answer).map_err(|error| refused(error, begun))?;
    let expected = [side.other().word(), caller, called].concat();
    hmac::verify(&secret.0, &expected, &answer).map_err(|_| denied("the other side has a different secret"))?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)
}

fn checked_head(head: &[u8]) -> io::Result<&[u8]> {
    let (magic, rest) = head.split_at(MAGIC.len());
    let (version, challenge) = rest.split_at(2);
    if magic != MAGIC {
        return Err(denied("the other side does not speak Ronde's protocol"));
    }
    let version = u16::from_le_bytes([version[0], version[1]]);
    if version == VERSION {
        Ok(challenge)
    } else {
        Err(denied(&format!("the other side uses protocol version {version}, this side {VERSION}")))
    }
}

/// Who cannot prove the secret is hung up on: the caller sees only that. So is who was slow, and may try again.
fn refused(error: io::Error, begun: Instant) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset if begun.elapsed() < PATIENCE => {
            denied("the other side rejected our secret")
        }
        _ => error,
    }
}

/// Whether the other side is not, or will not have, one of ours; whatever else fails may work the next time.
pub(crate) fn is_final(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn denied(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
}

pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("cannot get random bytes"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
        thread,
    };

    use super::{Secret, Side, greet};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (caller, listener.accept().unwrap().0)
    }

    fn meet(caller_secret: &'static [u8], called_secret: &'static [u8]) -> (Result<(), String>, Result<(), String>) {
        let (mut caller, mut called) = pair();
        let other = thread::spawn(move || {
            greet(&mut called, &Secret::new(called_secret), Side::Called).map_err(|error| error.to_string())
        });
        let one = greet(&mut caller, &Secret::new(caller_secret), Side::Caller).map_err(|error| error.to_string());
        drop(caller);
        (one, other.join().unwrap())
    }

    #[test]
    fn who_knows_the_secret_is_let_in() {
        assert_eq!(meet(b"one", b"one"), (Ok(()), Ok(())));
    }

    #[test]
    fn who_does_not_is_told_so() {
        let (one, other) = meet(b"one", b"two");
        assert!(one.unwrap_err().contains("secret"));
        assert!(other.unwrap_err().contains("secret"));
    }

    #[test]
    fn another_version_is_named() {
        let (mut caller, mut called) = pair();
        called.write_all(b"RONDE\n\x07\x00................").unwrap();
        let error = greet(&mut caller, &Secret::new(b"one"), Side::Caller).unwrap_err().to_string();
        assert_eq!(error, "the other side uses protocol version 7, this side 3");
    }

    #[test]
    fn what_is_not_ronde_is_not_read_further() {
        let (mut caller, mut called) = pair();
        called.write_all(b"HTTP/1.1 400 Bad Request").unwrap();
        let error = greet(&mut caller, &Secret::new(b"one"), Side::Caller).unwrap_err().to_string();
        assert_eq!(error, "the other side does not speak Ronde's protocol");
        let mut rest = Vec::new();
        called.set_nonblocking(true).unwrap();
        let _ = called.read_to_end(&mut rest);
        assert_eq!(rest.len(), 24, "a proof was sent to a stranger");
    }
}
