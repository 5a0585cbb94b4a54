//! Says what is wrong with a JSON document, in the words of the real server (those of Go's JSON package).
//!
//! Runs only on documents that `serde_json` refused, so it is made to be exact rather than fast. It keeps its own
//! stack: hostile nesting costs one byte per level.

use std::str;

use super::DEPTH_MAX;

/// Why a document was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Syntax(String),
    TooDeep,
    /// With the number as it was written.
    NumberTooLarge(String),
}

/// What may come next.
#[derive(Clone, Copy, PartialEq)]
enum Want {
    Value,
    ValueOrClose,
    Key,
    KeyOrClose,
    AfterValue,
}

struct Scanner<'a> {
    body: &'a [u8],
    at: usize,
    /// The closing bracket of each open list and object.
    open: Vec<u8>,
    deepest: usize,
    number_too_large: Option<&'a [u8]>,
}

/// Finds the first fault; none means that only the contents of texts can be wrong.
pub(super) fn fault(body: &[u8]) -> Option<Fault> {
    let mut scanner = Scanner { body, at: 0, open: Vec::new(), deepest: 0, number_too_large: None };
    if let Err(text) = scanner.document() {
        return Some(Fault::Syntax(text));
    }
    if scanner.deepest >= DEPTH_MAX {
        return Some(Fault::TooDeep);
    }
    scanner.number_too_large.map(|number| Fault::NumberTooLarge(String::from_utf8_lossy(number).into_owned()))
}

/// Returns the document with U+FFFD for what is not UTF-8 and for escapes of half surrogate pairs.
pub(super) fn with_clean_texts(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        clean.push_str(before);
        let length = match escape_code(escape) {
            Some(0xd800..=0xdbff) if matches!(escape.get(6..).and_then(escape_code), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                clean.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            Some(_) => 6,
            None => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        clean.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    clean.push_str(rest);
    clean
}

/// The code unit of a text that starts with `\uXXXX`.
fn escape_code(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), String> {
        let mut want = Want::Value;
        loop {
            self.skip_space();
            let Some(&byte) = self.body.get(self.at) else {
                let complete = want == Want::AfterValue && self.open.is_empty();
                return if complete { Ok(()) } else { Err(end()) };
            };
            want = match (want, byte) {
                (Want::AfterValue, _) => self.after_value(byte)?,
                (Want::KeyOrClose, b'}') | (Want::ValueOrClose, b']') => self.close(),
                (Want::Key | Want::KeyOrClose, b'"') => self.key()?,
                (Want::Key | Want::KeyOrClose, _) => {
                    return Err(bad(byte, "looking for beginning of object key string"));
                }
                (Want::Value | Want::ValueOrClose, _) => self.value(byte)?,
            };
        }
    }

    fn value(&mut self, byte: u8) -> Result<Want, String> {
        match byte {
            b'{' => return Ok(self.enter(b'}', Want::KeyOrClose)),
            b'[' => return Ok(self.enter(b']', Want::ValueOrClose)),
            b'"' => self.text()?,
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            _ => return Err(bad(byte, "looking for beginning of value")),
        }
        Ok(Want::AfterValue)
    }

    fn enter(&mut self, closing: u8, want: Want) -> Want {
        self.at += 1;
        self.open.push(closing);
        self.deepest = self.deepest.max(self.open.len());
        want
    }

    fn close(&mut self) -> Want {
        self.at += 1;
        self.open.pop();
        Want::AfterValue
    }

    fn after_value(&mut self, byte: u8) -> Result<Want, String> {
        match (self.open.last(), byte) {
            (None, _) => Err(bad(byte, "after top-level value")),
            (Some(closing), _) if *closing == byte => Ok(self.close()),
            (Some(closing), b',') => {
                let want = if *closing == b'}' { Want::Key } else { Want::Value };
                self.at += 1;
                Ok(want)
            }
            (Some(b'}'), _) => Err(bad(byte, "after object key:value pair")),
            (Some(_), _) => Err(bad(byte, "after array element")),
        }
    }

    fn key(&mut self) -> Result<Want, String> {
        self.text()?;
        self.skip_space();
        match self.next()? {
            b':' => Ok(Want::Value),
            other => Err(bad(other, "after object key")),
        }
    }

    fn text(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next_or_space() {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => self.four_digits()?,
                    other => return Err(bad(other, "in string escape code")),
                },
                control @ ..0x20 => return Err(bad(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn four_digits(&mut self) -> Result<(), String> {
        for _ in 0..4 {
            let digit = self.next_or_space();
            if !digit.is_ascii_hexdigit() {
                return Err(bad(digit, "in \\u hexadecimal character escape"));
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next_or_space() {
            b'0' => {}
            b'1'..=b'9' => self.skip_digits(),
            other => return Err(bad(other, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let number = &self.body[start..self.at];
        let value = str::from_utf8(number).ok().and_then(|text| text.parse::<f64>().ok());
        if value.is_none_or(f64::is_infinite) {
            self.number_too_large.get_or_insert(number);
        }
        Ok(())
    }

    fn digits(&mut self, place: &str) -> Result<(), String> {
        match self.next_or_space() {
            b'0'..=b'9' => self.skip_digits(),
            other => return Err(bad(other, place)),
        }
        Ok(())
    }

    fn skip_digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            let found = self.next_or_space();
            if found != expected {
                let place = format!("in literal {word} (expecting {})", quoted(expected));
                return Err(bad(found, &place));
            }
        }
        Ok(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    /// The next byte where a space would be wrong: the end is taken for one there.
    fn next_or_space(&mut self) -> u8 {
        let byte = self.peek().unwrap_or(b' ');
        self.at += 1;
        byte
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or_else(end)?;
        self.at += 1;
        Ok(byte)
    }
}

fn end() -> String {
    "unexpected end of JSON input".to_owned()
}

fn bad(byte: u8, place: &str) -> String {
    format!("invalid character {} {place}", quoted(byte))
}

/// A byte as Go shows it: read as Latin-1, in single quotes, escaped where it cannot be printed.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        0x07 => "'\\a'".to_owned(),
        0x08 => "'\\b'".to_owned(),
        0x0b => "'\\v'".to_owned(),
        0x0c => "'\\f'".to_owned(),
        ..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}
