//! What strict field validation collects: duplicate and unknown fields with their paths.
//!
//! The reader of JSON notes them while reading. Unknown fields in what was not read in one piece (YAML, the result of
//! a patch) are found by the schema's own check of a whole value, not here.

use std::fmt::{self, Write as _};

use crate::schema::{Node, Type};

/// The real server stops collecting there.
const MESSAGES_MAX: usize = 100;

/// Collects messages, each once.
#[derive(Debug, Default)]
pub(super) struct Notes {
    messages: Vec<String>,
}

/// Where in a document we are, as a list that lives on the stack of the reader.
#[derive(Clone, Copy)]
pub(super) enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl Notes {
    pub(super) fn duplicate(&mut self, path: Path<'_>) {
        self.note(|| format!("duplicate field {}", quoted(&path.to_string())));
    }

    pub(super) fn unknown(&mut self, path: Path<'_>) {
        self.note(|| format!("unknown field {}", quoted(&path.to_string())));
    }

    pub(super) fn into_messages(self) -> Vec<String> {
        self.messages
    }

    fn note(&mut self, message: impl FnOnce() -> String) {
        if self.messages.len() >= MESSAGES_MAX {
            return;
        }
        let message = message();
        if !self.messages.contains(&message) {
            self.messages.push(message);
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// What the schema says about a field of an object.
pub(super) enum Known<'a> {
    /// With the schema of the value, where there is one.
    Yes(Option<Node<'a>>),
    No,
}

/// Looks a field up in a schema that may not be there (anything goes then).
pub(super) fn known<'a>(schema: Option<Node<'a>>, field: &str) -> Known<'a> {
    let Some(schema) = schema.filter(|s| s.kind == Type::Object) else { return Known::Yes(None) };
    match schema.field(field) {
        Some(child) => Known::Yes(Some(child)),
        None if schema.keeps_unknown() => Known::Yes(None),
        None => Known::No,
    }
}

/// Quotes as Go's `strconv.Quote` does.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            _ if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            _ if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}
