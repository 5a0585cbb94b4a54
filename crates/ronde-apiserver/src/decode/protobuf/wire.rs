//! The protobuf wire format: fields as number and payload, one by one. Knows no message.
//!
//! Nothing is copied and nothing is trusted: every length is checked. The words of errors are those of the real server.

/// Reads the fields of one message.
pub struct Fields<'a> {
    /// The name of the message, for errors.
    message: &'a str,
    rest: &'a [u8],
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

const TRUNCATED: &str = "unexpected EOF";
const OVERFLOW: &str = "proto: integer overflow";

impl<'a> Fields<'a> {
    pub fn of_message(message: &'a str, bytes: &'a [u8]) -> Self {
        Self { message, rest: bytes }
    }

    /// Returns the next field, or nothing at the end of the message.
    ///
    /// # Errors
    /// If the message is cut off, or is none.
    pub fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..=i32::MAX.unsigned_abs()).contains(number));
        let payload = match (number, tag & 7) {
            (_, 4) => return Err(format!("proto: {}: wiretype end group for non-group", self.message)),
            (None, kind) => {
                return Err(format!("proto: {}: illegal tag {} (wire type {kind})", self.message, tag >> 3));
            }
            (_, 0) => Payload::Varint(varint(&mut self.rest)?),
            (_, 1) => Payload::Fixed64(fixed64(&mut self.rest)?),
            (_, 2) => Payload::Bytes(self.bytes()?),
            (_, 5) => Payload::Fixed32(u32::from_le_bytes(array(&mut self.rest)?)),
            (_, kind) => return Err(format!("proto: illegal wireType {kind}")),
        };
        Ok(number.map(|number| (number, payload)))
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = varint(&mut self.rest)?;
        if i64::try_from(length).is_err() {
            return Err("proto: negative length found during unmarshaling".to_owned());
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'a> Payload<'a> {
    /// The number of the wire type.
    pub fn wire_type(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32(_) => 5,
        }
    }

    pub fn bytes(self, field: &str) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(self.misfit(field)),
        }
    }

    pub fn text(self, field: &str) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes(field)?)
            .map_err(|_| format!("proto: field {} has invalid UTF-8", go_name(field)))
    }

    pub fn int(self, field: &str) -> Result<i64, String> {
        match self {
            Self::Varint(bits) => Ok(bits.cast_signed()),
            _ => Err(self.misfit(field)),
        }
    }

    /// Whatever a writer put above the 32 bits is dropped, as every reader does.
    pub fn int32(self, field: &str) -> Result<i32, String> {
        #[expect(clippy::cast_possible_truncation, reason = "the upper half is the sign only")]
        self.int(field).map(|wide| wide as i32)
    }

    pub fn double(self, field: &str) -> Result<f64, String> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(self.misfit(field)),
        }
    }

    /// The error about a payload that cannot be that of `field`.
    pub fn misfit(self, field: &str) -> String {
        format!("proto: wrong wireType = {} for field {}", self.wire_type(), go_name(field))
    }
}

/// Splits the payload of a packed list of varints.
pub fn unpack(mut packed: &[u8]) -> Result<Vec<u64>, String> {
    let mut numbers = Vec::new();
    while !packed.is_empty() {
        numbers.push(varint(&mut packed)?);
    }
    Ok(numbers)
}

fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or(TRUNCATED)?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(OVERFLOW.to_owned())
}

fn fixed64(rest: &mut &[u8]) -> Result<u64, String> {
    array(rest).map(u64::from_le_bytes)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], String> {
    let (taken, after) = rest.split_first_chunk().ok_or(TRUNCATED)?;
    *rest = after;
    Ok(*taken)
}

/// The name of a field as the real server's errors have it: that of its own code, which mostly is this.
fn go_name(field: &str) -> String {
    let mut letters = field.chars();
    match (field, letters.next()) {
        ("metadata", _) => "ObjectMeta".to_owned(),
        (_, Some(first)) => first.to_uppercase().chain(letters).collect(),
        (_, None) => String::new(),
    }
}
