//! Reading fields of objects the way the real server's structs do: what is absent is the zero value.
//!
//! Indexing a `Value` by a name never fails; these helpers only say what an absent or null field stands for.

use jiff::Timestamp;
use serde_json::Value;

use super::age;

pub(super) const NONE: &str = "<none>";
pub(super) const UNSET: &str = "<unset>";

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The text, or `absent` if it is empty.
pub(super) fn text_or<'a>(value: &'a Value, absent: &'a str) -> &'a str {
    match text(value) {
        "" => absent,
        text => text,
    }
}

pub(super) fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

pub(super) fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

pub(super) fn count(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

/// The texts of a list, joined.
pub(super) fn joined<'a>(texts: impl IntoIterator<Item = &'a str>, separator: &str) -> String {
    texts.into_iter().collect::<Vec<_>>().join(separator)
}

pub(super) fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

pub(super) fn age(object: &Value, now: Timestamp) -> String {
    age::since(&object["metadata"]["creationTimestamp"], now)
}

pub(super) fn is_being_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// A quantity; one that is absent is zero.
pub(super) fn quantity(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "0".to_owned(),
    }
}

/// Whether the condition of this type is there and true.
pub(super) fn has_condition(status: &Value, condition_type: &str) -> bool {
    let condition = list(&status["conditions"]).iter().find(|condition| condition["type"] == condition_type);
    condition.is_some_and(|condition| condition["status"] == "True")
}

/// The first three of a list, and how many there are beyond: `a,b,c + 2 more...`.
pub(super) struct Shortened {
    shown: Vec<String>,
    count: usize,
}

/// As many entries of a list as a cell shows.
const SHOWN_MAX: usize = 3;

impl Shortened {
    pub(super) fn new() -> Self {
        Self { shown: Vec::with_capacity(SHOWN_MAX), count: 0 }
    }

    pub(super) fn push(&mut self, entry: impl FnOnce() -> String) {
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(entry());
        }
        self.count += 1;
    }

    /// The cell; an empty list gives the empty text.
    pub(super) fn finish(&self) -> String {
        let shown = self.shown.join(",");
        match self.count.saturating_sub(SHOWN_MAX) {
            0 => shown,
            more => format!("{shown} + {more} more..."),
        }
    }
}

/// Makes the cells of a row from anything a `Value` can be made from.
macro_rules! cells {
    ($($cell:expr),+ $(,)?) => { vec![$(serde_json::Value::from($cell)),+] };
}
pub(super) use cells;
