//! Paths to fields as definitions write them: `.spec.x` or `.spec['a-b']`, checked against the schema.
//!
//! Used for the `fieldPath` of rules and for selectable fields.

use std::fmt::Write as _;

use super::props::Props;

/// Finds what a path leads to: the path in the form of error messages, and the schema there.
///
/// # Errors
/// What is wrong with the path, in the words of the real server.
pub(super) fn resolve<'s>(path: &str, schema: Props<'s>, brackets: bool) -> Result<(String, Props<'s>), String> {
    let mut tokens = tokens(path).into_iter();
    let mut next = || tokens.next().ok_or_else(|| "unexpected end of JSON path".to_owned());
    let mut found = String::new();
    let mut schema = schema;
    while let Ok(token) = next() {
        let name = match token {
            "." => next()?.to_owned(),
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = next()?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner.filter(|_| quoted.len() >= 2);
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                let name = unescape(inner).map_err(|error| format!("invalid string literal: {error}"))?;
                let close = next()?;
                if close != "]" {
                    return Err(format!("expected ] but got {close}"));
                }
                name
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        schema = step(schema, &name, &mut found)?;
    }
    Ok((found, schema))
}

fn step<'s>(schema: Props<'s>, name: &str, path: &mut String) -> Result<Props<'s>, String> {
    let invalid = || "does not refer to a valid field".to_owned();
    if schema.object("properties").is_some_and(|properties| !properties.is_empty()) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        return schema.property(name).ok_or_else(invalid);
    }
    let _ = write!(path, "[{name}]");
    schema.schema("additionalProperties").ok_or_else(invalid)
}

/// Splits at `.`, `[` and `]`, which are tokens themselves; quoted strings stay whole.
fn tokens(path: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => quoted_end(rest),
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        tokens.push(&rest[..end]);
        rest = &rest[end..];
    }
    tokens
}

fn quoted_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let closing = (1..bytes.len()).find(|&at| bytes[at] == b'\'' && bytes[at - 1] != b'\\');
    closing.map_or(text.len(), |at| at + 1)
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let escaped = chars.next();
        out.push(match escaped {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(c @ ('\'' | '\\')) => c,
            other => return Err(format!("invalid escape char \\{}", other.map(String::from).unwrap_or_default())),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_resolve() {
        let schema = json!({"properties": {"spec": {"properties": {"x": {"type": "string"}, "a.b": {"type": "integer"}}},
            "m": {"additionalProperties": {"properties": {"k": {"type": "boolean"}}}}}});
        let check = |path: &str, expected: Result<(&str, &str), &str>| {
            let found = resolve(path, Props(&schema), true);
            let found = found.as_ref().map(|(path, schema)| (path.as_str(), schema.text("type")));
            assert_eq!(found.map_err(String::as_str), expected, "{path}");
        };
        check(".spec.x", Ok(("spec.x", "string")));
        check(".spec['a.b']", Ok(("spec.a.b", "integer")));
        check(".m.foo.k", Ok(("m[foo].k", "boolean")));
        check(".spec.y", Err("does not refer to a valid field"));
        check(".spec.", Err("unexpected end of JSON path"));
        check("spec", Err("expected [ or . but got: spec"));
        check(".spec[0]", Err("expected single quoted string but got 0"));
        check(".spec['x'", Err("unexpected end of JSON path"));
        check(".spec['\\q']", Err("invalid string literal: invalid escape char \\q"));
        let refused = resolve(".spec['x']", Props(&schema), false).map(|(path, _)| path);
        assert_eq!(refused, Err("array notation is not allowed".to_owned()));
    }
}
