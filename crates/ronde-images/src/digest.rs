//! Names of content: `sha256:` and 64 hexadecimal digits, and the check that bytes are what they are called.
//!
//! Everything that comes from a registry or an archive passes a [`Verifier`] before it is used. Other algorithms are
//! refused: no registry in use names content by anything else, and what cannot be checked must not be run.

use std::{fmt, str::FromStr};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const ALGORITHM: &str = "sha256:";
const LENGTH: usize = 32;

/// The SHA-256 of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; LENGTH]);

/// What can be wrong with a digest, or with the bytes that it names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("invalid digest `{0}`: it must be `sha256:` and 64 lower-case hexadecimal digits")]
    Invalid(String),
    #[error("content has digest {actual}, not {expected}")]
    Mismatch { expected: Digest, actual: Digest },
    #[error("content of {digest} is longer than the {expected} bytes that its descriptor says")]
    TooLong { digest: Digest, expected: u64 },
    #[error("content of {digest} ends after {actual} of {expected} bytes")]
    TooShort { digest: Digest, expected: u64, actual: u64 },
}

impl Digest {
    /// Returns the digest of bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Returns the 64 hexadecimal digits, which are also a good name for a file.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Checks that bytes have this digest.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), Error> {
        let actual = Self::of_bytes(bytes);
        if actual == *self { Ok(()) } else { Err(Error::Mismatch { expected: *self, actual }) }
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits = text.strip_prefix(ALGORITHM).map(str::as_bytes).unwrap_or_default();
        let invalid = || Error::Invalid(text.chars().take(100).collect());
        if digits.len() != 2 * LENGTH {
            return Err(invalid());
        }
        let mut bytes = [0; LENGTH];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (high, low) = (nibble(pair[0]).ok_or_else(invalid)?, nibble(pair[1]).ok_or_else(invalid)?);
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Computes a digest from bytes as they come.
#[derive(Clone)]
pub struct Hasher(Context);

impl Hasher {
    /// Begins with no bytes.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all bytes that were added.
    pub fn finish(self) -> Digest {
        let mut bytes = [0; LENGTH];
        bytes.copy_from_slice(self.0.finish().as_ref());
        Digest(bytes)
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

/// Checks a stream of bytes against the digest and the size that were promised.
///
/// A stream that is resumed feeds what is already on disk first: a digest has no other beginning than the first byte.
#[derive(Debug, Clone)]
pub struct Verifier {
    hasher: Hasher,
    digest: Digest,
    size: u64,
    seen: u64,
}

impl Verifier {
    /// Begins to check content that should have this digest and size.
    pub fn new(digest: Digest, size: u64) -> Self {
        Self { hasher: Hasher::new(), digest, size, seen: 0 }
    }

    /// Returns how many bytes were added.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Adds bytes, and refuses those beyond the promised size: they must not be written anywhere.
    pub fn update(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let seen = self.seen.saturating_add(bytes.len() as u64);
        if seen > self.size {
            return Err(Error::TooLong { digest: self.digest, expected: self.size });
        }
        self.hasher.update(bytes);
        self.seen = seen;
        Ok(())
    }

    /// Checks that the content is whole and right.
    pub fn finish(self) -> Result<(), Error> {
        if self.seen < self.size {
            return Err(Error::TooShort { digest: self.digest, expected: self.size, actual: self.seen });
        }
        let actual = self.hasher.finish();
        if actual == self.digest { Ok(()) } else { Err(Error::Mismatch { expected: self.digest, actual }) }
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digests_are_read_and_written() {
        assert_eq!(Digest::of_bytes(b"").to_string(), EMPTY);
        assert_eq!(EMPTY.parse(), Ok(Digest::of_bytes(b"")));
        assert_eq!(serde_json::to_string(&Digest::of_bytes(b"")).unwrap(), format!("\"{EMPTY}\""));
    }

    #[test]
    fn other_texts_are_no_digests() {
        let upper = EMPTY.to_uppercase();
        let long = format!("{EMPTY}0");
        for text in ["", "sha256:", "sha512:00", &EMPTY[7..], &EMPTY[..70], &upper, &long, "sha256:../../etc/passwd"] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    #[test]
    fn wrong_content_is_refused() {
        let digest = Digest::of_bytes(b"right");
        let check = |chunks: &[&[u8]]| {
            let mut verifier = Verifier::new(digest, 5);
            chunks.iter().try_for_each(|chunk| verifier.update(chunk))?;
            verifier.finish()
        };
        assert_eq!(check(&[b"ri", b"", b"ght"]), Ok(()));
        assert_eq!(check(&[b"righ"]), Err(Error::TooShort { digest, expected: 5, actual: 4 }));
        assert_eq!(check(&[b"right", b"!"]), Err(Error::TooLong { digest, expected: 5 }));
        let actual = Digest::of_bytes(b"wrong");
        assert_eq!(check(&[b"wrong"]), Err(Error::Mismatch { expected: digest, actual }));
    }

    proptest! {
        #[test]
        fn a_digest_does_not_depend_on_chunks(bytes: Vec<u8>, at: usize) {
            let (first, second) = bytes.split_at(at.checked_rem(bytes.len()).unwrap_or(0));
            let mut verifier = Verifier::new(Digest::of_bytes(&bytes), bytes.len() as u64);
            verifier.update(first).unwrap();
            verifier.update(second).unwrap();
            prop_assert_eq!(verifier.finish(), Ok(()));
        }

        #[test]
        fn what_is_read_is_written_the_same(bytes: [u8; LENGTH]) {
            prop_assert_eq!(Digest(bytes).to_string().parse(), Ok(Digest(bytes)));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Digest>();
        }
    }
}
