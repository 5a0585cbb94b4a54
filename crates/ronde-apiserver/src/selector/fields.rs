//! Field selectors: `metadata.name=web,status.phase!=Running`.

use crate::error::ApiError;

/// A condition on fields of objects; all terms must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// A condition on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldTerm {
    /// As in `status.phase`.
    pub path: String,
    /// Whether the field must have the value, or must not.
    pub equal: bool,
    pub value: String,
}

impl FieldSelector {
    /// Reads a selector; commas, equals signs and backslashes in values are escaped with a backslash.
    ///
    /// # Errors
    /// If it is malformed, with the words of the real server.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let mut parts = split(text);
        // The real server sorts, which decides what a client hears of two mistakes.
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let term = FieldTerm::parse(part, text).map_err(ApiError::bad_request)?;
            // `=` alone asks for nothing.
            if !(term.path.is_empty() && term.value.is_empty()) {
                terms.push(term);
            }
        }
        Ok(Self { terms })
    }

    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Returns the only value that a field may have.
    pub fn exact(&self, path: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.path == path).map(|term| term.value.as_str())
    }
}

impl FieldTerm {
    /// Whether an object fits whose field is `value`.
    pub fn accepts(&self, value: &str) -> bool {
        self.equal == (self.value == value)
    }

    fn parse(part: &str, whole: &str) -> Result<Self, String> {
        let unclear = || format!("invalid selector: '{whole}'; can't understand '{part}'");
        let operator = part.find('=').ok_or_else(unclear)?;
        let (path, value) = (&part[..operator], &part[operator + 1..]);
        let (path, equal, value) = match path.strip_suffix('!') {
            Some(path) => (path, false, value),
            None => (path, true, value.strip_prefix('=').unwrap_or(value)),
        };
        Ok(Self { path: path.to_owned(), equal, value: unescape(value)? })
    }
}

/// Splits at commas that no backslash precedes; the backslashes stay.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(special @ ('\\' | ',' | '=')) => plain.push(special),
                Some(other) => return Err(format!("invalid field selector: invalid escape sequence: \\{other}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => {
                let code = u32::from(c);
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            _ => plain.push(c),
        }
    }
    Ok(plain)
}
