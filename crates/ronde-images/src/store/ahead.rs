//! Decompresses in a thread of its own, while the one that unpacks writes files: both take about the same time.

use std::{
    io::{self, BufRead, Read},
    sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    thread,
};

use crate::{Digest, digest::Hasher};

/// One piece. Larger ones leave the processor's cache before they are used.
const CHUNK: usize = 1 << 18;
/// How many pieces wait: 2 MiB for each layer that is unpacked.
const CHUNKS_AHEAD: usize = 8;

/// Runs `use_it` on what a reader gives, read ahead by another thread. Returns the digest of what was read too.
pub fn read_ahead<T, E>(
    source: impl Read + Send,
    use_it: impl FnOnce(&mut Ahead) -> Result<T, E>,
) -> Result<(T, Digest), E> {
    thread::scope(|scope| {
        let (full, receiver) = sync_channel(CHUNKS_AHEAD);
        let (sender, empty) = channel();
        scope.spawn(move || fill(source, &full, &empty));
        let mut ahead = Ahead { receiver, sender, hasher: Hasher::new(), chunk: Vec::new(), at: 0 };
        let used = use_it(&mut ahead)?;
        // The other thread ends when `ahead` goes, if not before.
        Ok((used, ahead.hasher.finish()))
    })
}

/// Reads until the end, an error, or until nobody listens any more.
fn fill(mut source: impl Read, full: &SyncSender<io::Result<Vec<u8>>>, empty: &Receiver<Vec<u8>>) {
    loop {
        let mut chunk = empty.try_recv().unwrap_or_default();
        let filled = fill_one(&mut source, &mut chunk);
        let is_end = filled.is_err() || chunk.is_empty();
        if full.send(filled.map(|()| chunk)).is_err() || is_end {
            return;
        }
    }
}

fn fill_one(source: &mut impl Read, chunk: &mut Vec<u8>) -> io::Result<()> {
    chunk.resize(CHUNK, 0);
    let mut filled = 0;
    while filled < CHUNK {
        match source.read(&mut chunk[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    chunk.truncate(filled);
    Ok(())
}

/// What was read ahead.
pub struct Ahead {
    receiver: Receiver<io::Result<Vec<u8>>>,
    sender: Sender<Vec<u8>>,
    hasher: Hasher,
    chunk: Vec<u8>,
    at: usize,
}

impl BufRead for Ahead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.chunk.len() {
            // Nobody sends after the end.
            let next = self.receiver.recv().unwrap_or_else(|_| Ok(Vec::new()))?;
            self.hasher.update(&next);
            self.at = 0;
            let used = std::mem::replace(&mut self.chunk, next);
            // At the end nobody takes it.
            let _ = self.sender.send(used);
        }
        Ok(&self.chunk[self.at..])
    }

    fn consume(&mut self, amount: usize) {
        self.at = (self.at + amount).min(self.chunk.len());
    }
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect()
    }

    #[test]
    fn everything_arrives_in_order() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, (CHUNKS_AHEAD + 3) * CHUNK] {
            let source = bytes(length);
            let read = |ahead: &mut Ahead| {
                let mut all = Vec::new();
                ahead.read_to_end(&mut all).map(|_| all)
            };
            let (all, digest) = read_ahead(source.as_slice(), read).unwrap();
            assert!(all == source, "{length}");
            assert_eq!(digest, Digest::of_bytes(&source));
        }
    }

    #[test]
    fn who_stops_early_stops_both() {
        let endless = io::repeat(1);
        assert_eq!(read_ahead(endless, |_| Err::<(), _>("enough")), Err("enough"));
    }
}
