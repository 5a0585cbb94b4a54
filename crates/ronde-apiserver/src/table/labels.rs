//! Labels and label selectors as text, in the order and spelling of the real server: `app=web,tier in (a,b),!old`.

use serde_json::Value;

use super::field::{NONE, entries, list, text};

/// Writes a map of labels, or `<none>`.
pub(super) fn labels(map: &Value) -> String {
    let mut pairs: Vec<String> = entries(map).map(|(key, value)| format!("{key}={}", text(value))).collect();
    if pairs.is_empty() {
        return NONE.to_owned();
    }
    // By the whole pair, not by the key: `a-b=1` comes before `a=1`.
    pairs.sort_unstable();
    pairs.join(",")
}

/// Writes a label selector; the empty text if it has no requirement.
///
/// None if it is not a valid one, which validation does not let into the store.
pub(super) fn selector(selector: &Value) -> Option<String> {
    let equal = entries(&selector["matchLabels"]).map(|(key, value)| Some((key, format!("{key}={}", text(value)))));
    let expressions = list(&selector["matchExpressions"]).iter().map(|e| Some((text(&e["key"]), requirement(e)?)));
    let mut requirements = equal.chain(expressions).collect::<Option<Vec<_>>>()?;
    requirements.sort_by_key(|(key, _)| *key);
    Some(requirements.into_iter().map(|(_, requirement)| requirement).collect::<Vec<_>>().join(","))
}

/// Writes a label selector, `<none>` if it has no requirement.
pub(super) fn selector_or_none(value: &Value) -> String {
    match selector(value) {
        None => "<error>".to_owned(),
        Some(text) if text.is_empty() => NONE.to_owned(),
        Some(text) => text,
    }
}

fn requirement(expression: &Value) -> Option<String> {
    let key = text(&expression["key"]);
    let mut values: Vec<&str> = list(&expression["values"]).iter().map(text).collect();
    values.sort_unstable();
    let values = values.join(",");
    match text(&expression["operator"]) {
        "In" => Some(format!("{key} in ({values})")),
        "NotIn" => Some(format!("{key} notin ({values})")),
        "Exists" => Some(key.to_owned()),
        "DoesNotExist" => Some(format!("!{key}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_sorted_by_the_whole_pair() {
        assert_eq!(labels(&json!({"a": "1", "a-b": "2", "b": ""})), "a-b=2,a=1,b=");
        assert_eq!(labels(&json!({})), "<none>");
        assert_eq!(labels(&Value::Null), "<none>");
    }

    #[test]
    fn selectors_are_sorted_by_key_and_their_values_too() {
        let check = |value: Value, expected: &str| assert_eq!(selector_or_none(&value), expected, "{value}");
        check(Value::Null, "<none>");
        check(json!({}), "<none>");
        check(json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2");
        check(
            json!({"matchLabels": {"m": "x"}, "matchExpressions": [
                {"key": "z", "operator": "NotIn", "values": ["q", "p"]},
                {"key": "b", "operator": "Exists"},
                {"key": "a", "operator": "In", "values": ["only"]},
                {"key": "c", "operator": "DoesNotExist"},
            ]}),
            "a in (only),b,!c,m=x,z notin (p,q)",
        );
        check(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}), "<error>");
    }
}
