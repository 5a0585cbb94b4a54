//! Field paths such as `.status.conditions[type=Ready].status`: parsed once, then read or removed.
//! Scenarios use them to pick, hide and wait for fields. Knows nothing of requests.

use std::{fmt, str::FromStr};

use serde_json::Value;

/// A way down into a JSON value.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldPath {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq)]
enum Segment {
    /// `.name` or `."name.with.dots"`.
    Key(String),
    /// `[0]`.
    Index(usize),
    /// `[type=Ready]` or `[metadata.name=a]`: the first element with that field, kept as a JSON pointer.
    Find(String, String),
    /// `[*]`: every element.
    Every,
    /// `.#`: the number of elements.
    Length,
}

/// Says what is wrong with a path.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("field path `{path}` is not understood at `{rest}`")]
pub struct PathError {
    path: String,
    rest: String,
}

impl FieldPath {
    /// Returns a copy of the value at this path; with `[*]`, the list of all values there are.
    pub fn get(&self, value: &Value) -> Option<Value> {
        get(&self.segments, value)
    }

    /// Removes the value at this path, if it is there.
    pub fn remove(&self, value: &mut Value) {
        remove(&self.segments, value);
    }
}

fn get(segments: &[Segment], value: &Value) -> Option<Value> {
    let Some((first, rest)) = segments.split_first() else { return Some(value.clone()) };
    match first {
        Segment::Key(key) => get(rest, value.get(key)?),
        Segment::Index(index) => get(rest, value.get(index)?),
        Segment::Find(key, wanted) => get(rest, value.as_array()?.iter().find(|v| has(v, key, wanted))?),
        Segment::Every => Some(value.as_array()?.iter().filter_map(|v| get(rest, v)).collect()),
        Segment::Length => Some(Value::from(value.as_array()?.len())),
    }
}

fn has(element: &Value, pointer: &str, wanted: &str) -> bool {
    element.pointer(pointer).is_some_and(|value| value == wanted)
}

fn remove(segments: &[Segment], value: &mut Value) {
    match segments {
        [] => {}
        [last] => last.remove_from(value),
        [first, rest @ ..] => first.all_in(value).into_iter().for_each(|inner| remove(rest, inner)),
    }
}

impl Segment {
    fn all_in<'v>(&self, value: &'v mut Value) -> Vec<&'v mut Value> {
        match (self, value) {
            (Segment::Key(key), Value::Object(map)) => map.get_mut(key).into_iter().collect(),
            (Segment::Index(index), Value::Array(list)) => list.get_mut(*index).into_iter().collect(),
            (Segment::Find(key, wanted), Value::Array(list)) => {
                list.iter_mut().filter(|v| has(v, key, wanted)).collect()
            }
            (Segment::Every, Value::Array(list)) => list.iter_mut().collect(),
            _ => Vec::new(),
        }
    }

    fn remove_from(&self, value: &mut Value) {
        match (self, value) {
            (Segment::Key(key), Value::Object(map)) => drop(map.remove(key)),
            (Segment::Index(index), Value::Array(list)) if *index < list.len() => drop(list.remove(*index)),
            (Segment::Find(key, wanted), Value::Array(list)) => list.retain(|v| !has(v, key, wanted)),
            (Segment::Every, Value::Array(list)) => list.clear(),
            _ => {}
        }
    }
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (segment, after) =
                split_segment(rest).ok_or_else(|| PathError { path: text.into(), rest: rest.into() })?;
            segments.push(segment);
            rest = after;
        }
        Ok(FieldPath { text: text.into(), segments })
    }
}

fn split_segment(rest: &str) -> Option<(Segment, &str)> {
    if let Some(after) = rest.strip_prefix(".#") {
        return Some((Segment::Length, after));
    }
    if let Some(after) = rest.strip_prefix(".\"") {
        let (key, after) = after.split_once('"')?;
        return Some((Segment::Key(key.into()), after));
    }
    if let Some(after) = rest.strip_prefix('[') {
        let (inside, after) = after.split_once(']')?;
        let segment = match inside.split_once('=') {
            Some((key, wanted)) => Segment::Find(format!("/{}", key.replace('.', "/")), wanted.into()),
            None if inside == "*" => Segment::Every,
            None => Segment::Index(inside.parse().ok()?),
        };
        return Some((segment, after));
    }
    let after = rest.strip_prefix('.')?;
    let end = after.find(['.', '[']).unwrap_or(after.len());
    (end > 0).then(|| (Segment::Key(after[..end].into()), &after[end..]))
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "rows read better without borrows")]
    fn check(path: &str, expected: Option<Value>) {
        let value = json!({"a": {"x.y": 1}, "c": [{"type": "A", "s": "no"}, {"type": "B", "s": "yes"}],
            "d": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "v": 7}]});
        let path: FieldPath = path.parse().expect("the path is well formed");
        assert_eq!(path.get(&value), expected, "{path}");
    }

    #[test]
    fn reads_keys_indexes_selections_and_lengths() {
        check(".a", Some(json!({"x.y": 1})));
        check(".a.\"x.y\"", Some(json!(1)));
        check(".c[1].s", Some(json!("yes")));
        check(".c[type=A].s", Some(json!("no")));
        check(".d[metadata.name=b].v", Some(json!(7)));
        check(".c.#", Some(json!(2)));
        check(".c[*].s", Some(json!(["no", "yes"])));
        check(".missing.#", None);
        check(".c[7]", None);
    }

    #[test]
    fn removes_what_is_there() {
        let mut value = json!({"a": {"b": 1, "c": 2}, "l": [{"x": 1, "y": 2}, {"y": 3}]});
        for path in [".a.b", ".x.y", ".l[*].x", ".l[9]"] {
            path.parse::<FieldPath>().expect("well formed").remove(&mut value);
        }
        assert_eq!(value, json!({"a": {"c": 2}, "l": [{"y": 2}, {"y": 3}]}));
    }

    #[test]
    fn says_where_a_path_is_wrong() {
        assert!("a".parse::<FieldPath>().is_err());
        assert!(".a[".parse::<FieldPath>().is_err());
        assert!(".a..b".parse::<FieldPath>().is_err());
    }
}
