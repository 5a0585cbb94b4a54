//! Prints JSON as YAML with sorted keys and one line per scalar, the form in which transcripts
//! read and diff best. Field sets (`fieldsV1`) stay JSON on one line.

use std::fmt::Write;

use serde_json::Value;

/// Returns the value as block YAML, ending with a line break.
pub fn yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => fields(&mut out, value, 0),
        Value::Array(list) if !list.is_empty() => elements(&mut out, list, 0),
        scalar => writeln!(out, "{}", inline(scalar)).expect("writing to a string"),
    }
    out
}

fn fields(out: &mut String, value: &Value, indent: usize) {
    let Value::Object(map) = value else { return };
    for (position, (key, value)) in map.iter().enumerate() {
        // The first field of a list element stands behind the element's dash.
        if position > 0 || indent == 0 || out.ends_with('\n') {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str(&plain_or_quoted(key));
        out.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() && key != "fieldsV1" => {
                out.push('\n');
                fields(out, value, indent + 2);
            }
            Value::Array(list) if !list.is_empty() => {
                out.push('\n');
                elements(out, list, indent);
            }
            scalar => writeln!(out, " {}", inline(scalar)).expect("writing to a string"),
        }
    }
}

fn elements(out: &mut String, list: &[Value], indent: usize) {
    for value in list {
        out.extend(std::iter::repeat_n(' ', indent));
        out.push_str("- ");
        match value {
            Value::Object(map) if !map.is_empty() => fields(out, value, indent + 2),
            scalar => writeln!(out, "{}", inline(scalar)).expect("writing to a string"),
        }
    }
}

/// Words that some readers of YAML take for something else than text.
const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => plain_or_quoted(text),
        other => other.to_string(),
    }
}

fn plain_or_quoted(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || "<$/".contains(c))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " _./:<>@=+$-(),'".contains(c))
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.into() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prints_nested_values_as_block_yaml() {
        let value = json!({
            "a": {"b": [1, "x", {"c": "10", "d": {"e": []}}]},
            "fieldsV1": {"f:a": {}},
            "s": "two\nlines",
        });
        let expected =
            "a:\n  b:\n  - 1\n  - x\n  - c: \"10\"\n    d:\n      e: []\nfieldsV1: {\"f:a\":{}}\ns: \"two\\nlines\"\n";
        assert_eq!(yaml(&value), expected);
    }

    #[test]
    fn reads_back_as_the_same_value() {
        let value = json!({"l": [{"x": {"y": "no"}}, [1]], "k: v": "a: b", "t": "true", "n": null, "e": ""});
        let back: Value = serde_saphyr::from_str(&yaml(&value)).expect("valid YAML");
        assert_eq!(back, value);
    }
}
