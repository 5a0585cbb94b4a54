//! Parts of objects as they stand in messages of the real server: JSON of its internal types.
//!
//! Those types have other field names than the API (`Containers`, not `containers`), in a fixed order, with unset
//! fields as null or zero; the table is `internal.txt`. Used where a message shows a whole object ("field is
//! immutable") or the difference of two. Called on error paths only.

use std::{borrow::Cow, collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::{diff::unified, read::items};

static TYPES: LazyLock<BTreeMap<&'static str, Vec<Field>>> = LazyLock::new(|| parse(include_str!("internal.txt")));
const NULL: &Value = &Value::Null;

/// Fields of a pod spec that the internal type has in its security context.
const HOST_FIELDS: [&str; 5] = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// Returns a part of an object in one line; `type_name` may be a list, as in `[]Taint`.
pub fn shown(type_name: &str, value: &Value) -> String {
    let mut printer = Printer { out: String::new(), depth: None };
    printer.value(&Kind::parse(type_name), value);
    printer.out
}

/// Returns the difference of two parts of an object.
pub fn difference(type_name: &str, old: &Value, new: &Value) -> String {
    let pretty = |value| {
        let mut printer = Printer { out: String::new(), depth: Some(0) };
        printer.value(&Kind::parse(type_name), value);
        printer.out
    };
    unified(&pretty(old), &pretty(new))
}

struct Field {
    shown: &'static str,
    /// Where the value is in the object.
    name: Cow<'static, str>,
    kind: Kind,
    /// Left out when empty.
    omits_empty: bool,
    /// The fields of this object stand among those of its parent.
    is_spread: bool,
}

enum Kind {
    String,
    Int,
    Bool,
    Quantity,
    IntOrString,
    /// Anything that is null when it is not set.
    Plain,
    Struct(Cow<'static, str>),
    Pointer(Box<Kind>),
    List(Box<Kind>),
    Map(Box<Kind>),
}

impl Kind {
    fn parse(code: &str) -> Self {
        let inner = |rest: &str| Box::new(Self::parse(rest));
        if let Some(rest) = code.strip_prefix('*') {
            return Self::Pointer(inner(rest));
        }
        if let Some(rest) = code.strip_prefix("[]") {
            return Self::List(inner(rest));
        }
        if let Some(rest) = code.strip_prefix("{}") {
            return Self::Map(inner(rest));
        }
        match code {
            "string" => Self::String,
            "int" => Self::Int,
            "bool" => Self::Bool,
            "quantity" => Self::Quantity,
            "intstr" => Self::IntOrString,
            "time" | "raw" | "bytes" => Self::Plain,
            name => Self::Struct(Cow::Owned(name.to_owned())),
        }
    }

    /// What stands there for a value that is not set, unless it is an object with fields of its own.
    fn unset(&self) -> &'static str {
        match self {
            Self::String => "\"\"",
            Self::Int | Self::IntOrString => "0",
            Self::Bool => "false",
            Self::Quantity => "\"0\"",
            Self::Plain | Self::Struct(_) | Self::Pointer(_) | Self::List(_) | Self::Map(_) => "null",
        }
    }

    /// Tells whether `value` is one that a field marked with `?` leaves out.
    fn is_empty(&self, value: &Value) -> bool {
        match value {
            Value::Null => !matches!(self, Self::Struct(_)),
            Value::String(text) => text.is_empty() && matches!(self, Self::String),
            Value::Number(number) => number.as_i64() == Some(0) && matches!(self, Self::Int),
            Value::Bool(is_set) => !is_set && matches!(self, Self::Bool),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty() && matches!(self, Self::Map(_)),
        }
    }
}

fn parse(table: &'static str) -> BTreeMap<&'static str, Vec<Field>> {
    table
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .filter_map(|line| line.split_once(' '))
        .map(|(name, fields)| (name, fields.split(' ').filter_map(parse_field).collect()))
        .collect()
}

fn parse_field(text: &'static str) -> Option<Field> {
    let (names, code) = text.split_once(':')?;
    let is_spread = names.starts_with('+');
    let names = names.trim_start_matches('+');
    let (shown, name) = match names.split_once('=') {
        Some((shown, name)) => (shown, Cow::Borrowed(name)),
        None => (names, lower_first(names)),
    };
    let kind = Kind::parse(code.trim_end_matches('0').trim_end_matches('?'));
    Some(Field { shown, name, kind, omits_empty: code.contains('?'), is_spread })
}

fn lower_first(name: &'static str) -> Cow<'static, str> {
    if name.starts_with(|first: char| first.is_ascii_uppercase()) {
        let (first, rest) = name.split_at(1);
        Cow::Owned(first.to_ascii_lowercase() + rest)
    } else {
        Cow::Borrowed(name)
    }
}

struct Printer {
    out: String,
    /// How deep the next line is, when there are lines.
    depth: Option<usize>,
}

impl Printer {
    fn value(&mut self, kind: &Kind, value: &Value) {
        match (kind, value) {
            (Kind::Struct(name), _) => self.object(name, value),
            (_, Value::Null) => self.out.push_str(kind.unset()),
            (Kind::Pointer(inner), _) => self.value(inner, value),
            (Kind::List(inner), Value::Array(list)) => self.list(inner, list),
            (Kind::Map(inner), Value::Object(map)) => self.map(inner, map),
            _ => self.out.push_str(&escape_html(&value.to_string())),
        }
    }

    fn object(&mut self, type_name: &str, value: &Value) {
        let value = &internal(type_name, value);
        let mut fields = Vec::new();
        collect(type_name, value, &mut fields);
        self.enclosed(('{', '}'), fields.len(), |printer, index| {
            let (field, value) = fields[index];
            printer.key(field.shown);
            printer.value(&field.kind, value);
        });
    }

    fn list(&mut self, inner: &Kind, list: &[Value]) {
        self.enclosed(('[', ']'), list.len(), |printer, index| printer.value(inner, &list[index]));
    }

    fn map(&mut self, inner: &Kind, map: &Map<String, Value>) {
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        self.enclosed(('{', '}'), entries.len(), |printer, index| {
            let (key, value) = entries[index];
            printer.key(key);
            printer.value(inner, value);
        });
    }

    fn enclosed(&mut self, (open, close): (char, char), len: usize, mut each: impl FnMut(&mut Self, usize)) {
        self.out.push(open);
        self.depth = self.depth.map(|depth| depth + 1);
        for index in 0..len {
            if index > 0 {
                self.out.push(',');
            }
            self.new_line();
            each(self, index);
        }
        self.depth = self.depth.map(|depth| depth - 1);
        if len > 0 {
            self.new_line();
        }
        self.out.push(close);
    }

    fn new_line(&mut self) {
        if let Some(depth) = self.depth {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', depth));
        }
    }

    fn key(&mut self, key: &str) {
        self.out.push_str(&escape_html(&Value::from(key).to_string()));
        self.out.push(':');
        if self.depth.is_some() {
            self.out.push(' ');
        }
    }
}

/// Lists the fields that are shown, those of spread objects in their place.
fn collect<'a>(type_name: &str, value: &'a Value, out: &mut Vec<(&'static Field, &'a Value)>) {
    for field in TYPES.get(type_name).into_iter().flatten() {
        let at = value.get(field.name.as_ref()).unwrap_or(NULL);
        match &field.kind {
            Kind::Struct(name) if field.is_spread => collect(name, at, out),
            kind if field.omits_empty && kind.is_empty(at) => {}
            _ => out.push((field, at)),
        }
    }
}

/// Moves what the internal type has in another place.
fn internal<'a>(type_name: &str, value: &'a Value) -> Cow<'a, Value> {
    let is_split = type_name == "PodSpec" && HOST_FIELDS.iter().any(|field| value.get(*field).is_some());
    if !is_split {
        return Cow::Borrowed(value);
    }
    let mut spec = value.clone();
    for field in HOST_FIELDS {
        if let Some(found) = value.get(field)
            && let Some(context) = spec.get_mut("securityContext").and_then(Value::as_object_mut)
        {
            context.insert(field.to_owned(), found.clone());
        }
    }
    Cow::Owned(spec)
}

/// Go's JSON is safe inside HTML.
fn escape_html(json: &str) -> Cow<'_, str> {
    if json.contains(['<', '>', '&']) {
        Cow::Owned(json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
    } else {
        Cow::Borrowed(json)
    }
}

/// Returns a list of texts in one line, as Go writes it.
pub fn texts(list: &Value) -> Value {
    if items(list).is_empty() { Value::Null } else { list.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{difference, shown};

    fn check(name: &str, type_name: &str, value: &serde_json::Value, expected: &str) {
        assert_eq!(shown(type_name, value), expected, "{name}");
    }

    #[test]
    fn objects_are_shown_with_the_names_of_the_internal_types() {
        check(
            "a taint",
            "Taint",
            &json!({"key": "a", "effect": "NoSchedule"}),
            r#"{"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}"#,
        );
        check("unset lists are null", "Capabilities", &json!({}), r#"{"Add":null,"Drop":null}"#);
        check("a list of objects", "[]PodIP", &json!([{"ip": "10.0.0.1"}]), r#"[{"IP":"10.0.0.1"}]"#);
        check(
            "selectors keep their names",
            "LabelSelector",
            &json!({"matchLabels": {"b": "<", "a": ""}}),
            r#"{"matchLabels":{"a":"","b":"\u003c"}}"#,
        );
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"hostNetwork": true, "securityContext": {}}});
        let text = shown("PodTemplateSpec", &template);
        assert!(text.starts_with(r#"{"labels":{"a":"b"},"Spec":{"Volumes":null,"#), "{text}");
        assert!(text.contains(r#""SecurityContext":{"HostNetwork":true,"HostPID":false,"#), "{text}");
    }

    #[test]
    fn differences_are_lines_of_pretty_json() {
        let (old, new) = (json!({"name": "a"}), json!({"name": "a", "value": "b"}));
        assert_eq!(
            difference("Sysctl", &old, &new),
            "@@ -1,4 +1,4 @@\n {\n  \"Name\": \"a\",\n- \"Value\": \"\"\n+ \"Value\": \"b\"\n }\n"
        );
    }
}
