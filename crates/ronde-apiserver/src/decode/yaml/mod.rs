//! Reads YAML (which most clients send as JSON: that goes the fast way) into a JSON value.
//!
//! Only the first document counts, as in the real server, and YAML is what that one takes for it (YAML 1.1 scalars,
//! merge keys). The value is composed from the parser's events with a stack of its own: reading through serde takes
//! 30 KiB of the thread's stack per level of nesting. Depth, and what aliases may blow a document up to, is bounded.

mod scalar;

use std::{collections::BTreeMap, mem, str};

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, ScanError};

use super::{DEPTH_MAX, Decoded, json, strict};

/// What a document may grow by through aliases, in nodes and bytes of text; the real server begins to look there.
const ALIAS_GROWTH_MAX: usize = 400_000;

/// How many duplicate keys are listed.
const DUPLICATES_MAX: usize = 100;

/// Reads the first YAML document.
///
/// # Errors
/// If it is not YAML, or cannot be JSON.
pub fn parse(body: &[u8]) -> Result<Decoded, String> {
    if body.trim_ascii_start().starts_with(b"{") {
        match json::parse(body, None) {
            Ok(decoded) if decoded.problems.is_empty() => return Ok(decoded),
            // YAML may start like this too, and has its own words for duplicates.
            _ => {}
        }
    }
    let text = str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let mut composer = Composer { left: 2 * body.len() + ALIAS_GROWTH_MAX, ..Composer::default() };
    let value = composer.first_document(text)?;
    Ok(Decoded { value, problems: composer.duplicates })
}

#[derive(Default)]
struct Composer {
    open: Vec<Open>,
    anchors: BTreeMap<usize, Made>,
    /// How many nodes and bytes of text may still come.
    left: usize,
    duplicates: Vec<String>,
}

/// A list or an object that is being read.
struct Open {
    content: Content,
    anchor: usize,
    line: usize,
    size: usize,
    height: usize,
}

enum Content {
    List(Vec<Value>),
    /// With the key whose value comes next.
    Object(Map<String, Value>, Option<Key>),
}

enum Key {
    Field(String),
    /// `<<`: the fields of the value are those of the object.
    Merge,
}

/// A complete node.
#[derive(Clone)]
struct Made {
    value: Value,
    line: usize,
    /// Nodes and bytes of text in it.
    size: usize,
    /// Levels of nesting in it.
    height: usize,
}

impl Composer {
    fn first_document(&mut self, text: &str) -> Result<Value, String> {
        let options = granit_parser::options! {
            emit_comments: false,
            flow_nesting_limit: DEPTH_MAX,
            block_nesting_limit: DEPTH_MAX,
        };
        let mut root = None;
        for event in Parser::new_from_str_with_options(text, options) {
            let (event, span) = event.map_err(|error| scan_error(&error))?;
            if event == Event::DocumentEnd {
                // What follows is not looked at, be it another document or nonsense.
                break;
            }
            let is_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            if let Some(made) = self.node(event, span.start.line())? {
                root = self.place(made, is_merge)?;
            }
        }
        Ok(root.unwrap_or_default())
    }

    /// Takes an event; returns the node that is complete with it.
    fn node(&mut self, event: Event<'_>, line: usize) -> Result<Option<Made>, String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar::resolve(&text, style, tag.as_deref())?;
                let size = 1 + text.len();
                self.spend(size)?;
                Ok(Some(self.anchored(anchor, Made { value, line, size, height: 0 })))
            }
            Event::SequenceStart(_, anchor, _) => self.enter(Content::List(Vec::new()), anchor, line),
            Event::MappingStart(_, anchor, _) => self.enter(Content::Object(Map::new(), None), anchor, line),
            Event::SequenceEnd | Event::MappingEnd => Ok(self.leave()),
            Event::Alias(anchor) => {
                let made = self.anchors.get(&anchor).cloned();
                let made = made.ok_or_else(|| "yaml: an anchor's value contains itself".to_owned())?;
                self.spend(made.size)?;
                Ok(Some(Made { line, ..made }))
            }
            _ => Ok(None),
        }
    }

    fn enter(&mut self, content: Content, anchor: usize, line: usize) -> Result<Option<Made>, String> {
        self.spend(1)?;
        self.check_depth(1)?;
        self.open.push(Open { content, anchor, line, size: 1, height: 0 });
        Ok(None)
    }

    fn leave(&mut self) -> Option<Made> {
        let Open { content, anchor, line, size, height } = self.open.pop()?;
        let value = match content {
            Content::List(items) => Value::Array(items),
            Content::Object(fields, _) => Value::Object(fields),
        };
        Some(self.anchored(anchor, Made { value, line, size, height: height + 1 }))
    }

    fn anchored(&mut self, anchor: usize, made: Made) -> Made {
        if anchor != 0 {
            self.anchors.insert(anchor, made.clone());
        }
        made
    }

    /// Puts a node where it belongs; returns the value if it is the whole document.
    fn place(&mut self, made: Made, is_merge: bool) -> Result<Option<Value>, String> {
        self.check_depth(made.height)?;
        let Some(parent) = self.open.last_mut() else { return Ok(Some(made.value)) };
        parent.size += made.size;
        parent.height = parent.height.max(made.height);
        match &mut parent.content {
            Content::List(items) => items.push(made.value),
            Content::Object(_, key @ None) if is_merge => *key = Some(Key::Merge),
            Content::Object(_, key @ None) => *key = Some(Key::Field(field_name(made.value)?)),
            Content::Object(fields, key) => match key.take() {
                Some(Key::Merge) => merge(fields, made, &mut self.duplicates)?,
                Some(Key::Field(name)) => insert(fields, name, made.value, made.line, &mut self.duplicates),
                None => {}
            },
        }
        Ok(None)
    }

    fn spend(&mut self, size: usize) -> Result<(), String> {
        let left = self.left.checked_sub(size);
        self.left = left.ok_or_else(|| "yaml: too large once its aliases are expanded".to_owned())?;
        Ok(())
    }

    fn check_depth(&self, height: usize) -> Result<(), String> {
        if self.open.len() + height < DEPTH_MAX {
            return Ok(());
        }
        Err(format!("yaml: nested deeper than {DEPTH_MAX} levels"))
    }
}

/// The parser's error, with its line.
fn scan_error(error: &ScanError) -> String {
    format!("yaml: line {}: {}", error.marker().line(), error.info())
}

/// The field that a key names: JSON knows texts only.
fn field_name(key: Value) -> Result<String, String> {
    match key {
        Value::String(text) => Ok(text),
        Value::Bool(_) | Value::Number(_) => Ok(key.to_string()),
        Value::Null => Err("unsupported map key of type: null".to_owned()),
        Value::Array(_) | Value::Object(_) => Err(format!("yaml: invalid map key: {key}")),
    }
}

/// Merges the fields of an object, or of several, of which the first has the last word.
fn merge(fields: &mut Map<String, Value>, made: Made, duplicates: &mut Vec<String>) -> Result<(), String> {
    let line = made.line;
    let sources = match made.value {
        Value::Array(items) => items,
        one => vec![one],
    };
    for source in sources.into_iter().rev() {
        let Value::Object(source) = source else {
            return Err("yaml: map merge requires map or sequence of maps as the value".to_owned());
        };
        for (name, value) in source {
            insert(fields, name, value, line, duplicates);
        }
    }
    Ok(())
}

fn insert(fields: &mut Map<String, Value>, name: String, value: Value, line: usize, duplicates: &mut Vec<String>) {
    match fields.get_mut(&name) {
        None => {
            fields.insert(name, value);
        }
        Some(earlier) => {
            drop(mem::replace(earlier, value));
            if duplicates.len() < DUPLICATES_MAX {
                duplicates.push(format!("line {line}: key {} already set in map", strict::quoted(&name)));
            }
        }
    }
}
