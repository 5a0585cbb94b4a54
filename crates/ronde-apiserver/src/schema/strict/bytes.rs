//! Base64 as the real server reads it: line breaks are skipped, the error is the offset it reports.
//!
//! The `base64` crate refuses line breaks and counts offsets otherwise, so the reading is done here; it only writes.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Returns the canonical text of the same bytes, or the offset of the first wrong byte.
pub(super) fn canonical(text: &str) -> Result<Cow<'_, str>, usize> {
    if is_canonical(text.as_bytes()) {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(STANDARD.encode(decode(text.as_bytes())?)))
}

fn is_canonical(text: &[u8]) -> bool {
    if !text.len().is_multiple_of(4) {
        return false;
    }
    let (digits, last, padding) = match text {
        [] => return true,
        [digits @ .., last, b'=', b'='] => (digits, last, 2),
        [digits @ .., last, b'='] => (digits, last, 1),
        [digits @ .., last] => (digits, last, 0),
    };
    let unused_bits = [0, 0b11, 0b1111][padding];
    digits.iter().all(|byte| digit(*byte).is_some()) && digit(*last).is_some_and(|value| value & unused_bits == 0)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = [0_u8; 4];
    let mut count = 0;
    let mut input = text.iter().copied().enumerate().filter(|(_, byte)| !matches!(byte, b'\n' | b'\r'));
    while let Some((at, byte)) = input.next() {
        match digit(byte) {
            Some(value) => {
                group[count] = value;
                count += 1;
            }
            None if byte == b'=' && count >= 2 => {
                if count == 2 && input.next().ok_or(text.len())?.1 != b'=' {
                    return Err(at + 1);
                }
                if let Some((garbage, _)) = input.next() {
                    return Err(garbage);
                }
                bytes.extend_from_slice(&joined(group, count)[..count - 1]);
                return Ok(bytes);
            }
            None => return Err(at),
        }
        if count == 4 {
            bytes.extend_from_slice(&joined(group, 4));
            count = 0;
        }
    }
    if count == 0 { Ok(bytes) } else { Err(text.len() - count) }
}

/// The three bytes of a group of which the first `count` digits are given.
fn joined(mut group: [u8; 4], count: usize) -> [u8; 3] {
    group[count..].fill(0);
    let [a, b, c, d] = group;
    [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_read_as_the_real_server_reads_them() {
        let rows = [
            ("", Ok("")),
            ("YQ==", Ok("YQ==")),
            ("YWI=", Ok("YWI=")),
            ("YWJj", Ok("YWJj")),
            ("YQ==\n", Ok("YQ==")),
            ("YW\r\nJj", Ok("YWJj")),
            ("YR==", Ok("YQ==")),
            ("abc", Err(0)),
            ("ab!c", Err(2)),
            ("YWJjZ", Err(4)),
            ("=", Err(0)),
            ("YQ=", Err(3)),
            ("YQ=a", Err(3)),
            ("YQ==YQ==", Err(4)),
            ("YWI=x", Err(4)),
            ("YWJé", Err(3)),
        ];
        for (given, expected) in rows {
            assert_eq!(canonical(given).as_deref(), expected.as_ref().map(|t| *t), "{given:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_stays(bytes: Vec<u8>) {
            let text = STANDARD.encode(&bytes);
            prop_assert!(matches!(canonical(&text), Ok(Cow::Borrowed(_))));
            prop_assert_eq!(decode(text.as_bytes()), Ok(bytes));
        }
    }
}
