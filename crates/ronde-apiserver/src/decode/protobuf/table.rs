//! The table of messages in `protobuf.txt`, read once.

use std::{collections::BTreeMap, sync::LazyLock};

pub static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("../protobuf.txt")));

/// All messages.
pub struct Table {
    ids: BTreeMap<&'static str, usize>,
    messages: Vec<Message>,
}

/// A message: what becomes a JSON object.
pub struct Message {
    /// As in `core.v1.PodSpec`.
    pub name: &'static str,
    /// In the order of their numbers.
    pub fields: Vec<Field>,
}

/// A field of a message.
pub struct Field {
    pub number: u32,
    /// Its name in JSON.
    pub name: &'static str,
    pub shape: Shape,
    pub kind: Kind,
    /// Zero is something else than nothing, or always written.
    pub keeps_zero: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    One,
    List,
    Map,
    /// A message whose fields stand in the parent.
    Inline,
}

/// The type of a field, or of the items of a list or map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    String,
    Int32,
    Int64,
    Bool,
    Double,
    Bytes,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// Bytes that are JSON.
    RawJson,
    /// A message that is a list of texts in JSON.
    Strings,
    /// A JSON schema or several.
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    Message(usize),
}

impl Table {
    /// Finds a message by its name, as in `core.v1.Pod`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.ids.get(name).copied()
    }

    #[cfg(test)]
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.ids.keys().copied()
    }

    pub fn message(&self, id: usize) -> &Message {
        &self.messages[id]
    }

    fn parse(text: &'static str) -> Self {
        let lines: Vec<&'static str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let names = lines.iter().map(|line| line.split(' ').next().unwrap_or_default());
        let ids: BTreeMap<_, _> = names.enumerate().map(|(id, name)| (name, id)).collect();
        let messages = lines.iter().map(|line| Message::parse(line, &ids)).collect();
        Self { ids, messages }
    }
}

impl Message {
    fn parse(line: &'static str, ids: &BTreeMap<&'static str, usize>) -> Self {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let package = name.rsplit_once('.').map_or("", |(package, _)| package);
        Self { name, fields: words.map(|word| Field::parse(word, package, ids)).collect() }
    }

    pub fn field(&self, number: u32) -> Option<&Field> {
        let at = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some(&self.fields[at])
    }
}

impl Field {
    fn parse(word: &'static str, package: &str, ids: &BTreeMap<&'static str, usize>) -> Self {
        const COLUMNS: &str = "a field has a number, a name and a type (tested)";
        let mut columns = word.splitn(3, ':');
        let number = columns.next().and_then(|number| number.parse().ok()).expect(COLUMNS);
        let name = columns.next().expect(COLUMNS);
        let code = columns.next().expect(COLUMNS);
        let (shape, rest) = match (code.split_at_checked(2), name) {
            (_, "+") => (Shape::Inline, code),
            (Some(("[]", rest)), _) => (Shape::List, rest),
            (Some(("{}", rest)), _) => (Shape::Map, rest),
            _ => (Shape::One, code),
        };
        let kind = Kind::parse(rest.trim_end_matches('!'), package, ids);
        Self { number, name, shape, kind, keeps_zero: code.ends_with('!') }
    }
}

impl Kind {
    fn parse(code: &str, package: &str, ids: &BTreeMap<&'static str, usize>) -> Self {
        match code {
            "string" => Self::String,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "bool" => Self::Bool,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            "Quantity" => Self::Quantity,
            "Time" => Self::Time,
            "MicroTime" => Self::MicroTime,
            "IntOrString" => Self::IntOrString,
            "RawJson" => Self::RawJson,
            "Strings" => Self::Strings,
            "SchemaOrArray" => Self::SchemaOrArray,
            "SchemaOrBool" => Self::SchemaOrBool,
            "SchemaOrStrings" => Self::SchemaOrStrings,
            name => {
                let id = ids.get(name).or_else(|| ids.get(format!("{package}.{name}").as_str()));
                Self::Message(*id.expect("every message that is named has a line (tested)"))
            }
        }
    }
}
