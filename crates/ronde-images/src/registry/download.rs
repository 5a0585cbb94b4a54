//! A download under way: what has come, what must come next, and when to begin anew.
//!
//! Knows nothing of requests; what comes is sent on and not kept.

use bytes::Bytes;
use http::header::CONTENT_RANGE;
use tokio::sync::mpsc;

use super::{
    backoff::Failure,
    client::Answer,
    error::{RegistryError, protocol},
};
use crate::{Descriptor, digest};

/// What comes of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Bytes(Bytes),
    /// The registry does not go on where it was stopped: what came so far is of no use.
    Restart,
}

/// A download under way.
pub(super) struct Download<'a> {
    part: &'a Descriptor,
    /// How much was sent on.
    at: u64,
    pieces: &'a mpsc::Sender<Piece>,
}

impl<'a> Download<'a> {
    pub(super) fn new(part: &'a Descriptor, at: u64, pieces: &'a mpsc::Sender<Piece>) -> Self {
        Self { part, at, pieces }
    }

    pub(super) fn part(&self) -> &Descriptor {
        self.part
    }

    /// Returns the next byte that is wanted.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn is_whole(&self) -> bool {
        self.at >= self.part.size
    }

    pub(super) async fn restart(&mut self) -> Result<(), RegistryError> {
        if self.at > 0 {
            self.at = 0;
            self.send(Piece::Restart).await?;
        }
        Ok(())
    }

    /// Checks that the registry goes on where it was asked to.
    pub(super) async fn check_range(&mut self, answer: &Answer) -> Result<(), Failure> {
        let range = answer.response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
        match range.and_then(parse_content_range) {
            Some((start, total)) if start == self.at && total.is_none_or(|total| total == self.part.size) => Ok(()),
            _ => {
                self.restart().await?;
                Err(Failure::passing(protocol(&answer.host, "it sent another range than it was asked for")))
            }
        }
    }

    pub(super) async fn add(&mut self, bytes: Bytes) -> Result<(), RegistryError> {
        let at = self.at.saturating_add(bytes.len() as u64);
        if at > self.part.size {
            return Err(digest::Error::TooLong { digest: self.part.digest, expected: self.part.size }.into());
        }
        self.send(Piece::Bytes(bytes)).await?;
        self.at = at;
        Ok(())
    }

    async fn send(&self, piece: Piece) -> Result<(), RegistryError> {
        self.pieces.send(piece).await.map_err(|_| RegistryError::Stopped)
    }

    pub(super) fn check_end(&self, host: &str) -> Result<(), Failure> {
        if self.at == self.part.size {
            return Ok(());
        }
        let cause = format!("it ended after {} of {} bytes", self.at, self.part.size);
        Err(RegistryError::Broken { host: host.to_owned(), cause }.into())
    }
}

/// Reads `bytes 7-99/100` as the first byte and the size of the whole.
fn parse_content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (start, _) = range.split_once('-')?;
    let total = if total.trim() == "*" { None } else { Some(total.trim().parse().ok()?) };
    Some((start.trim().parse().ok()?, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_answers_are_read() {
        let check = |text: &str, expected| assert_eq!(parse_content_range(text), expected, "{text}");
        check("bytes 7-99/100", Some((7, Some(100))));
        check("bytes 0-0/*", Some((0, None)));
        check("bytes */100", None);
        check("7-99/100", None);
        check("bytes 7-99", None);
        check("bytes -1-99/100", None);
        check("", None);
    }
}
