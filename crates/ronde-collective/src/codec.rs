//! Bytes that ranks exchange about themselves: numbers, texts and lists, without any framework.
//!
//! What comes from outside is never trusted: every read is checked, and lengths are bounded by what is there.

/// Puts values one after the other.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// Seven bits a byte, the lowest first: most of our numbers are small.
    #[expect(clippy::cast_possible_truncation, reason = "masked to seven bits")]
    pub(crate) fn number(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    pub(crate) fn size(&mut self, value: usize) -> &mut Self {
        self.number(value as u64)
    }

    pub(crate) fn float(&mut self, value: f64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.size(value.len());
        self.0.extend(value);
        self
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }
}

/// Takes values in the order in which they were put; nothing if there is no such value.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    pub(crate) fn float(&mut self) -> Option<f64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(f64::from_le_bytes(*first))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.size()?;
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// A list whose elements are read by `each`; at least a byte per element bounds its length.
    pub(crate) fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = self.size()?;
        if len > self.0.len() {
            return None;
        }
        (0..len).map(|_| each(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Reader, Writer};

    proptest! {
        #[test]
        fn what_was_put_is_what_is_taken(number: u64, float: f64, text: String, list: Vec<u32>) {
            let mut writer = Writer::default();
            writer.number(number).float(float).text(&text).size(list.len());
            list.iter().for_each(|each| { writer.number(u64::from(*each)); });
            let mut reader = Reader(&writer.0);
            prop_assert_eq!(reader.number(), Some(number));
            prop_assert_eq!(reader.float().map(f64::to_bits), Some(float.to_bits()));
            prop_assert_eq!(reader.text(), Some(text.as_str()));
            prop_assert_eq!(reader.list(Reader::number), Some(list.into_iter().map(u64::from).collect::<Vec<_>>()));
            prop_assert_eq!(reader.byte(), None);
        }

        #[test]
        fn no_bytes_from_outside_make_it_panic(bytes: Vec<u8>) {
            let mut reader = Reader(&bytes);
            while reader.list(Reader::text).is_some() || reader.number().is_some() || reader.byte().is_some() {}
        }
    }
}
