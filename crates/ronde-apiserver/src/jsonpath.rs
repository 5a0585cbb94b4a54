//! The `JSONPath` of Kubernetes, as far as custom resources use it: printer columns, selectable fields, scale paths.
//!
//! Parsed once per definition, evaluated on every row of a table. Like the real server, a path that does not fit the
//! object (a missing key, an index out of bounds, a filter on something that is no list) selects nothing. Templates
//! (`range`, text between braces) belong to kubectl and are not here.

use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<Step>),
    Filter(Box<Filter>),
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    /// A plain index: `end` follows from `start`.
    single: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Filter {
    Exists(Vec<Step>),
    Compare { left: Operand, operator: Operator, right: Operand },
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

/// The path does not fit the value; the whole selection is empty.
struct Mismatch;

impl JsonPath {
    /// Reads a path such as `.status.conditions[?(@.type=="Ready")].status`.
    ///
    /// # Errors
    /// What is wrong with the text, as a sentence fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        let steps = Reader { rest: text }.steps()?;
        Ok(Self { steps })
    }

    /// Everything the path points at, in order.
    pub fn select<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        walk(vec![value], &self.steps).unwrap_or_default()
    }

    /// The first thing the path points at, which is what a printer column shows.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.select(value).into_iter().next()
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn steps(mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        while let Some(c) = self.rest.chars().next() {
            match c {
                ' ' | '@' | '$' => self.skip(1),
                '[' if self.rest.starts_with("[?(") => steps.push(self.filter()?),
                '[' => self.bracket(&mut steps)?,
                '.' if self.rest.starts_with("..") => self.recursive(&mut steps)?,
                '.' => {
                    self.skip(1);
                    steps.push(self.field());
                }
                other => return Err(format!("unrecognized character in action: {other:?}")),
            }
        }
        Ok(steps)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn recursive(&mut self, steps: &mut Vec<Step>) -> Result<(), String> {
        if steps.last() == Some(&Step::Recursive) {
            return Err("invalid multiple recursive descent".to_owned());
        }
        self.skip(2);
        steps.push(Step::Recursive);
        if self.rest.starts_with(|c: char| c == '_' || c == '*' || c.is_alphanumeric()) {
            steps.push(self.field());
        }
        Ok(())
    }

    /// A name up to the next delimiter; a backslash takes the next character as it is.
    fn field(&mut self) -> Step {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
                ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' => {
                    end = at;
                    break;
                }
                other => name.push(other),
            }
        }
        self.skip(end);
        if name == "*" { Step::Wildcard } else { Step::Field(name) }
    }

    fn bracket(&mut self, steps: &mut Vec<Step>) -> Result<(), String> {
        let close = self.rest.find(']').ok_or("unterminated array")?;
        let inside = &self.rest[1..close];
        self.skip(close + 1);
        let parts: Vec<&str> = inside.split(',').collect();
        if let [one] = parts[..] {
            steps.push(index(one)?);
        } else {
            let union: Result<Vec<Step>, String> = parts.iter().map(|part| index(part.trim_matches(' '))).collect();
            steps.push(Step::Union(union?));
        }
        Ok(())
    }

    fn filter(&mut self) -> Result<Step, String> {
        let body = &self.rest[3..];
        let close = filter_end(body).ok_or("unterminated filter")?;
        if !body[close + 1..].starts_with(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        self.skip(3 + close + 2);
        let text = &body[..close];
        let Some((left, operator, right)) = split_comparison(text) else {
            return Ok(Step::Filter(Box::new(Filter::Exists(Reader { rest: text }.steps()?))));
        };
        let operator = match operator {
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            "==" => Operator::Equal,
            "!=" => Operator::NotEqual,
            ">=" => Operator::GreaterOrEqual,
            ">" => Operator::Greater,
            other => return Err(format!("unrecognized filter operator {other}")),
        };
        Ok(Step::Filter(Box::new(Filter::Compare { left: operand(left)?, operator, right: operand(right)? })))
    }
}

/// Where the closing parenthesis of a filter is, quotes skipped.
fn filter_end(body: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match (quote, c) {
            (_, '\n') => return None,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if c == open && !escaped => quote = None,
            (None, ')') => return Some(at),
            _ => {}
        }
        escaped = c == '\\';
    }
    None
}

fn split_comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let start = text.find(is_operator).filter(|&at| at > 0)?;
    let length = text[start..].find(|c| !is_operator(c))?;
    Some((&text[..start], &text[start..start + length], &text[start + length..]))
}

fn operand(text: &str) -> Result<Operand, String> {
    let text = text.trim();
    let literal = match text.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inner = text[1..].strip_suffix(quote).ok_or("unterminated quoted string")?;
            Value::String(unescape(inner))
        }
        Some('+' | '-' | '0'..='9') => number(text)?,
        _ if text == "true" || text == "false" => Value::Bool(text == "true"),
        _ => return Ok(Operand::Path(Reader { rest: text }.steps()?)),
    };
    Ok(Operand::Literal(literal))
}

fn number(text: &str) -> Result<Value, String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if let Ok(integer) = digits.parse::<i64>() {
        return Ok(Value::from(integer));
    }
    digits.parse::<f64>().map(Value::from).map_err(|_| format!("cannot parse number {text}"))
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => {}
            },
            other => out.push(other),
        }
    }
    out
}

/// What stands between `[` and `]`: `*`, `'key'`, an index or a slice.
fn index(text: &str) -> Result<Step, String> {
    if text == "*" {
        return Ok(Step::Slice(Slice::default()));
    }
    if let Some(key) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return Ok(Step::Field(key.replace('\\', "")));
    }
    let invalid = || format!("invalid array index {text}");
    let mut parts = text.split(':').map(|part| match part {
        "" => Ok(None),
        digits => digits.parse::<i64>().map(Some).map_err(|_| invalid()),
    });
    let slice = Slice {
        start: parts.next().transpose()?.flatten(),
        end: parts.next().transpose()?.flatten(),
        step: parts.next().transpose()?.flatten(),
        single: !text.contains(':'),
    };
    if parts.next().is_some() || (slice.single && slice.start.is_none()) {
        return Err(invalid());
    }
    Ok(Step::Slice(slice))
}

fn walk<'a>(input: Vec<&'a Value>, steps: &[Step]) -> Result<Vec<&'a Value>, Mismatch> {
    steps.iter().try_fold(input, |values, step| step.apply(&values))
}

impl Step {
    fn apply<'a>(&self, input: &[&'a Value]) -> Result<Vec<&'a Value>, Mismatch> {
        let mut found = Vec::new();
        match self {
            Self::Union(steps) => {
                for step in steps {
                    found.extend(step.apply(input)?);
                }
            }
            Self::Field(name) => found.extend(input.iter().filter_map(|value| value.as_object()?.get(name))),
            Self::Wildcard => input.iter().for_each(|value| found.extend(children(value))),
            Self::Recursive => input.iter().for_each(|value| descend(value, &mut found)),
            Self::Slice(slice) => {
                for value in input.iter().filter(|value| !value.is_null()) {
                    slice.apply(value.as_array().ok_or(Mismatch)?, &mut found)?;
                }
            }
            Self::Filter(filter) => {
                for value in input {
                    for item in value.as_array().ok_or(Mismatch)? {
                        if filter.passes(item)? {
                            found.push(item);
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let inner = children(value);
    if !inner.is_empty() {
        found.push(value);
        for child in inner {
            descend(child, found);
        }
    }
}

impl Slice {
    fn apply<'a>(self, items: &'a [Value], found: &mut Vec<&'a Value>) -> Result<(), Mismatch> {
        let length = i64::try_from(items.len()).map_err(|_| Mismatch)?;
        let from_end = |at: i64| if at < 0 { at + length } else { at };
        let start = from_end(self.start.unwrap_or(0));
        let end = if self.single { start.saturating_add(1) } else { from_end(self.end.unwrap_or(length)) };
        if start == end {
            return Ok(());
        }
        let step = self.step.unwrap_or(1);
        if start < 0 || start >= length || end < start || end > length || step <= 0 {
            return Err(Mismatch);
        }
        let (start, end, step) = (start.unsigned_abs(), end.unsigned_abs(), step.unsigned_abs());
        let at = |n: u64| usize::try_from(n).map_err(|_| Mismatch);
        found.extend(items[at(start)?..at(end)?].iter().step_by(at(step)?));
        Ok(())
    }
}

impl Filter {
    fn passes(&self, item: &Value) -> Result<bool, Mismatch> {
        match self {
            Self::Exists(path) => Ok(walk(vec![item], path).is_ok_and(|found| !found.is_empty())),
            Self::Compare { left, operator, right } => {
                let (Some(left), Some(right)) = (left.value(item)?, right.value(item)?) else { return Ok(false) };
                operator.holds(left, right)
            }
        }
    }
}

impl Operand {
    fn value<'v>(&'v self, item: &'v Value) -> Result<Option<&'v Value>, Mismatch> {
        match self {
            Self::Literal(value) => Ok(Some(value)),
            Self::Path(path) => match walk(vec![item], path)?.as_slice() {
                [] => Ok(None),
                [one] => Ok(Some(one)),
                _ => Err(Mismatch),
            },
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, Mismatch> {
        let order = compare(left, right).ok_or(Mismatch)?;
        Ok(match self {
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::GreaterOrEqual => order != Ordering::Less,
            Self::Greater => order == Ordering::Greater,
        })
    }
}

/// Values of one kind only: an integer is never compared with a float or a string.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(l), Value::String(r)) => Some(l.cmp(r)),
        (Value::Bool(l), Value::Bool(r)) => Some(l.cmp(r)),
        (Value::Number(l), Value::Number(r)) => match (l.as_i64(), r.as_i64()) {
            (Some(l), Some(r)) => Some(l.cmp(&r)),
            (None, None) => l.as_f64()?.partial_cmp(&r.as_f64()?),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(name: &str, path: &str, expected: &[Value]) {
        let object = json!({
            "metadata": {"name": "a", "annotations": {"a-b": "dash", "x.y/z": "slash"}},
            "spec": {"replicas": 3, "ratio": 0.5, "on": true, "none": null, "list": [10, 20, 30, 40],
                     "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 1}, {"type": "Synced", "status": "False", "n": 2}]},
        });
        let found = JsonPath::parse(path).map(|path| path.select(&object).into_iter().cloned().collect::<Vec<_>>());
        assert_eq!(found.as_deref(), Ok(expected), "{name}");
    }

    #[test]
    fn paths_select() {
        check("a nested field", ".spec.replicas", &[json!(3)]);
        check("a null field", ".spec.none", &[json!(null)]);
        check("a field below null", ".spec.none.x", &[]);
        check("a missing field", ".spec.missing.deeper", &[]);
        check("a field of a scalar", ".spec.replicas.x", &[]);
        check("the root", ".metadata['name']", &[json!("a")]);
        check("a dollar in front", "$.metadata.name", &[json!("a")]);
        check("a quoted key with a dash", ".metadata.annotations['a-b']", &[json!("dash")]);
        check("a bare key with a dash", ".metadata.annotations.a-b", &[json!("dash")]);
        check("an escaped key", r".metadata.annotations.x\.y/z", &[json!("slash")]);
        check("a quoted key with escapes", r".metadata.annotations['x\.y/z']", &[json!("slash")]);
        check("an index", ".spec.list[1]", &[json!(20)]);
        check("the last", ".spec.list[-1]", &[json!(40)]);
        check("a negative index", ".spec.list[-2]", &[json!(30)]);
        check("an index out of bounds", ".spec.list[9]", &[]);
        check("the largest index", ".spec.list[9223372036854775807]", &[]);
        check("a slice", ".spec.list[1:3]", &[json!(20), json!(30)]);
        check("an open slice", ".spec.list[2:]", &[json!(30), json!(40)]);
        check("a slice with a step", ".spec.list[::2]", &[json!(10), json!(30)]);
        check("a slice to the last but one", ".spec.list[:-1]", &[json!(10), json!(20), json!(30)]);
        check("an empty slice", ".spec.list[1:1]", &[]);
        check("every item", ".spec.ports[*].port", &[json!(80), json!(443)]);
        check("a wildcard field", ".spec.ports.*.name", &[json!("http"), json!("https")]);
        check("a union", ".spec.list[0,2]", &[json!(10), json!(30)]);
        check("an index into an object", ".spec[0]", &[]);
        check("fields at any depth", "..port", &[json!(80), json!(443)]);
        check("a recursive step below a field", ".status..n", &[json!(1), json!(2)]);
        check("a filter by a string", r#".status.conditions[?(@.type=="Ready")].status"#, &[json!("True")]);
        check("a filter in single quotes", ".status.conditions[?(@.type=='Synced')].status", &[json!("False")]);
        check("a filter with spaces", r#".status.conditions[?(@.type == "Ready")].status"#, &[json!("True")]);
        check("a filter by a number", ".spec.ports[?(@.port>100)].name", &[json!("https")]);
        check("a filter by inequality", r#".status.conditions[?(@.type!="Ready")].n"#, &[json!(2)]);
        check("a filter by presence", ".spec.ports[?(@.name)].port", &[json!(80), json!(443)]);
        check("a filter on another type", r#".spec.ports[?(@.port=="80")].name"#, &[]);
        check("a filter on no list", r#".spec[?(@.a=="b")]"#, &[]);
        check("a filter whose value holds a parenthesis", r#".spec.ports[?(@.name=="a)b")].port"#, &[]);
    }

    #[test]
    fn bad_paths_are_refused() {
        let check = |path: &str, error: &str| assert_eq!(JsonPath::parse(path), Err(error.to_owned()), "{path}");
        check(".spec[", "unterminated array");
        check(".spec[x]", "invalid array index x");
        check(".spec[]", "invalid array index ");
        check(".spec[1:2:3:4]", "invalid array index 1:2:3:4");
        check(".a....b", "invalid multiple recursive descent");
        check(".a[?(@.b==\"c\"]", "unterminated filter");
        check(".a[?(@.b=~\"c\")]", "unrecognized filter operator =");
        check(".a[?(@.b=\"c\")]", "unrecognized filter operator =");
        check("spec", "unrecognized character in action: 's'");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[.a\\[\\]?()@=<>'\"*:0-9,\\\\ -]{0,24}") {
            if let Ok(path) = JsonPath::parse(&text) {
                path.select(&json!({"a": [{"a": 1}, {"a": "b"}, null, 3], "b": {"a": {}}}));
            }
        }
    }
}
