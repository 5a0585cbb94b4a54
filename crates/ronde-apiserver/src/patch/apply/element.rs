//! Path elements: the keys of `fieldsV1`, such as `f:spec`, `k:{"name":"web"}` and `v:"a"`.
//!
//! Sets keep elements as their canonical text, so that two equal elements are two equal strings. [`Element`] is the
//! parsed form, needed only to print a path, to sort what is printed, and to bring a client's text into canonical form.

use std::{cmp::Ordering, fmt};

use serde_json::{Number, Value};

/// One step of a path, parsed.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    Field(String),
    /// The item of a list that has these values in its key fields, sorted by field name.
    Key(Vec<(String, Value)>),
    /// The item of a set.
    Value(Value),
    Index(i64),
}

/// Why a text is no path element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// It starts with a kind that is not known; such elements are dropped.
    UnknownKind,
    Syntax,
}

/// Returns the text of a field's element.
pub fn field(name: &str) -> String {
    // Runs for every field of every created object; `format!` costs twice as much.
    let mut text = String::with_capacity(name.len() + 2);
    text.push_str("f:");
    text.push_str(name);
    text
}

/// Returns the field name if `text` is a field's element.
pub fn field_name(text: &str) -> Option<&str> {
    text.strip_prefix("f:")
}

/// Returns the text of a set item's element.
pub fn value(item: &Value) -> String {
    let mut text = "v:".to_owned();
    write_json(item, &mut text);
    text
}

/// Returns the text of a list item's element. `fields` are sorted by name.
pub fn key<'v>(fields: impl Iterator<Item = (&'v str, &'v Value)>) -> String {
    let mut text = "k:{".to_owned();
    for (i, (name, value)) in fields.enumerate() {
        if i > 0 {
            text.push(',');
        }
        write_string(name, &mut text);
        text.push(':');
        write_json(value, &mut text);
    }
    text.push('}');
    text
}

impl Element {
    /// Parses the text of an element.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let (kind, rest) = match (text.as_bytes().first(), text.as_bytes().get(1)) {
            (Some(&kind), Some(b':')) => (kind, &text[2..]),
            _ => return Err(Malformed::Syntax),
        };
        match kind {
            b'f' => Ok(Self::Field(rest.to_owned())),
            b'v' => Ok(Self::Value(serde_json::from_str(rest).map_err(|_| Malformed::Syntax)?)),
            b'i' => Ok(Self::Index(rest.parse().map_err(|_| Malformed::Syntax)?)),
            b'k' => match serde_json::from_str(rest) {
                Ok(Value::Object(fields)) => {
                    let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
                    fields.sort_by(|a, b| a.0.cmp(&b.0));
                    Ok(Self::Key(fields))
                }
                _ => Err(Malformed::Syntax),
            },
            _ => Err(Malformed::UnknownKind),
        }
    }

    /// Returns the canonical text.
    pub fn text(&self) -> String {
        match self {
            Self::Field(name) => field(name),
            Self::Key(fields) => key(fields.iter().map(|(name, value)| (name.as_str(), value))),
            Self::Value(item) => value(item),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Orders elements as the real server does: fields, keyed items, set items, indices.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => order_keys(a, b),
            (Self::Value(a), Self::Value(b)) => order_values(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// As in `.spec`, `[containerPort=80,protocol="TCP"]` and `[="a"]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(item) => write!(f, "[={item}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Writes JSON as the real server does inside of strings: `<`, `>` and `&` escaped, whole numbers without a point.
pub fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => write_string(text, out),
        Value::Number(number) => write_number(number, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (i, (name, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(name, out);
                out.push(':');
                write_json(value, out);
            }
            out.push('}');
        }
        Value::Null => out.push_str("null"),
        Value::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
    }
}

fn write_string(text: &str, out: &mut String) {
    let plain = |c: char| !matches!(c, '"' | '\\' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}') && c >= ' ';
    if text.chars().all(plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
        return;
    }
    for c in Value::from(text).to_string().chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
}

fn write_number(number: &Number, out: &mut String) {
    let text = number.to_string();
    // A float is whole here only as in `80.0`; one with an exponent stays as it is.
    out.push_str(text.strip_suffix(".0").unwrap_or(&text));
}

fn order_keys(a: &[(String, Value)], b: &[(String, Value)]) -> Ordering {
    for ((a_name, a_value), (b_name, b_value)) in a.iter().zip(b) {
        let order = a_name.cmp(b_name).then_with(|| order_values(a_value, b_value));
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

fn order_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ => value_rank(a).cmp(&value_rank(b)).then_with(|| a.to_string().cmp(&b.to_string())),
    }
}

fn order_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
    }
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_read_and_brought_into_one_form() {
        for (text, canonical, shown) in [
            ("f:spec", "f:spec", ".spec"),
            ("f:", "f:", "."),
            (r#"k:{ "b": "x", "a": 80.0 }"#, r#"k:{"a":80,"b":"x"}"#, r#"[a=80.0,b="x"]"#),
            (r#"v:"<a>""#, r#"v:"\u003ca\u003e""#, r#"[="<a>"]"#),
            ("v:true", "v:true", "[=true]"),
            ("i:3", "i:3", "[3]"),
        ] {
            let element = Element::parse(text).expect("the text is well-formed");
            assert_eq!((element.text().as_str(), element.to_string().as_str()), (canonical, shown), "{text}");
        }
        for (text, why) in [
            ("x:1", Malformed::UnknownKind),
            ("", Malformed::Syntax),
            ("f", Malformed::Syntax),
            ("spec", Malformed::Syntax),
            ("é:a", Malformed::Syntax),
            ("v:a", Malformed::Syntax),
            ("k:[]", Malformed::Syntax),
            ("i:x", Malformed::Syntax),
        ] {
            assert_eq!(Element::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn elements_are_ordered_by_kind_then_value() {
        let key = |port: u16, protocol: &str| {
            Element::Key(vec![("port".to_owned(), json!(port)), ("protocol".to_owned(), json!(protocol))])
        };
        let sorted = [
            Element::Field("a".to_owned()),
            Element::Field("a-b".to_owned()),
            Element::Key(vec![("port".to_owned(), json!(80))]),
            key(80, "TCP"),
            key(80, "UDP"),
            key(443, "TCP"),
            Element::Value(json!(2)),
            Element::Value(json!(10.5)),
            Element::Value(json!("a")),
            Element::Value(json!(false)),
            Element::Index(2),
            Element::Index(10),
        ];
        for pair in sorted.windows(2) {
            assert_eq!(pair[0].order(&pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(pair[1].order(&pair[0]), Ordering::Greater, "{pair:?}");
        }
    }
}
