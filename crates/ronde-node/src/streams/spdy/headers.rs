//! The compressed headers of SPDY/3.1: one zlib stream per direction, with a dictionary known to both sides. Pure.

use std::{collections::BTreeMap, sync::LazyLock};

use bytes::{Buf as _, Bytes};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::ProtocolError;

pub type Headers = BTreeMap<String, String>;

/// Clients send a handful of short headers; what unpacks to more is an attack.
const BLOCK_BYTES_MAX: usize = 16 << 10;

/// The words of the dictionary that stand in it with their lengths, as the protocol's draft 3 lists them.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host \
    if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie \
    keep-alive origin";
/// The rest of the dictionary.
const REST: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized\
    403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
    chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
    text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut dictionary = Vec::new();
    for word in WORDS.split_whitespace() {
        dictionary.extend_from_slice(&length(word));
        dictionary.extend_from_slice(word.replace('_', " ").as_bytes());
    }
    dictionary.extend_from_slice(REST.as_bytes());
    dictionary
});

/// Unpacks the headers of one direction.
pub struct Unpacker(Decompress);

/// Packs the headers of one direction.
pub struct Packer(Compress);

impl Unpacker {
    pub fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// # Errors
    /// If it is not a block of headers, or too large.
    pub fn unpack(&mut self, packed: &[u8]) -> Result<Headers, ProtocolError> {
        parse(self.inflate(packed)?.into())
    }

    fn inflate(&mut self, mut packed: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        let mut block = Vec::with_capacity(BLOCK_BYTES_MAX);
        let mut knows_dictionary = false;
        loop {
            let before = self.0.total_in();
            let status = self.0.decompress_vec(packed, &mut block, FlushDecompress::Sync);
            let taken = usize::try_from(self.0.total_in() - before).map_err(|_| ProtocolError::Headers)?;
            packed = packed.get(taken..).ok_or(ProtocolError::Headers)?;
            match status {
                // Asked for once, at the very beginning of a connection.
                Err(error) if error.needs_dictionary().is_some() && !knows_dictionary => {
                    self.0.set_dictionary(&DICTIONARY).map_err(|_| ProtocolError::Headers)?;
                    knows_dictionary = true;
                }
                Ok(Status::Ok | Status::BufError) if packed.is_empty() && block.len() < BLOCK_BYTES_MAX => {
                    return Ok(block);
                }
                _ => return Err(ProtocolError::Headers),
            }
        }
    }
}

impl Packer {
    pub fn new() -> Self {
        let mut compress = Compress::new(Compression::fast(), true);
        compress.set_dictionary(&DICTIONARY).expect("nothing has been compressed yet");
        Self(compress)
    }

    pub fn pack(&mut self, headers: &Headers) -> Vec<u8> {
        let mut block = u32::try_from(headers.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend_from_slice(&length(text));
            block.extend_from_slice(text.as_bytes());
        }
        // Incompressible data grows by less than this.
        let mut packed = Vec::with_capacity(block.len() * 2 + 64);
        let done = self.0.compress_vec(&block, &mut packed, FlushCompress::Sync);
        done.expect("the state is never damaged, and the room is there");
        packed
    }
}

fn length(text: &str) -> [u8; 4] {
    u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes()
}

fn parse(mut block: Bytes) -> Result<Headers, ProtocolError> {
    let mut headers = Headers::new();
    let count = block.try_get_u32().map_err(|_| ProtocolError::Headers)?;
    for _ in 0..count {
        let (name, value) = (text(&mut block)?, text(&mut block)?);
        headers.insert(name.to_ascii_lowercase(), value);
    }
    Ok(headers)
}

fn text(block: &mut Bytes) -> Result<String, ProtocolError> {
    let bytes = block.try_get_u32().ok().and_then(|count| usize::try_from(count).ok());
    let bytes = bytes.filter(|count| *count <= block.len()).ok_or(ProtocolError::Headers)?;
    String::from_utf8(block.split_to(bytes).into()).map_err(|_| ProtocolError::Headers)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::proptest};

    use super::*;

    #[test]
    fn the_dictionary_has_its_known_length() {
        assert_eq!(DICTIONARY.len(), 1423);
    }

    #[test]
    fn blocks_that_unpack_to_too_much_are_refused() {
        let large = Headers::from([("a".to_owned(), "x".repeat(BLOCK_BYTES_MAX))]);
        let packed = Packer::new().pack(&large);
        assert!(packed.len() < 300, "it looks harmless");
        assert_eq!(Unpacker::new().unpack(&packed), Err(ProtocolError::Headers));
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(blocks in proptest::collection::vec(btree_map("[a-z-]{1,20}", ".{0,40}", 0..6), 1..5)) {
            let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
            for headers in blocks {
                assert_eq!(unpacker.unpack(&packer.pack(&headers)), Ok(headers));
            }
        }

        #[test]
        fn garbage_is_an_error_and_nothing_worse(garbage: Vec<u8>) {
            let _ = Unpacker::new().unpack(&garbage);
            let _ = parse(garbage.into());
        }
    }
}
